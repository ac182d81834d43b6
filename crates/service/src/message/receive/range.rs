//! Ranges of an inbox, as the messages that a user may read of them.

use std::sync::Arc;

use kith_delivery::entry;
use kith_proto::message::v1::{Missed, delivery::What};
use kith_store::{ConversationId, Message, Seq, Timestamp, UserId};

use super::{
    FRESH_FOR,
    super::{
        Bounds, Messages, message_to_wire, no_conversation,
        reading::{PAGE_MAX, Page, Pull},
    },
    bell::Fresh,
    response::Deliveries,
};
use crate::{
    error::{Error, Reason},
    rpc::call::Principal,
};

/// Messages that are to be delivered.
#[derive(Clone, Debug)]
pub(super) struct DueRange {
    pub(super) conversation: ConversationId,
    /// `None`: the conversation is new to the user.
    pub(super) first: Option<Seq>,
    pub(super) last: Seq,
    /// Whether none of them is sent: the client has to pull them.
    pub(super) only_named: bool,
    /// The messages as a wake brought them.
    pub(super) fresh: Option<Fresh>,
}

/// Who receives, and how much of one conversation at once.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) parts: Arc<super::Parts>,
    pub(super) user: UserId,
    pub(super) principal: Principal,
}

impl Reader {
    fn messages(&self) -> &Messages {
        &self.parts.messages
    }

    /// Delivers messages of a range above `floor` that the user may read now. Returns the number up to which it is done if some
    /// of the range is left.
    ///
    /// # Errors
    /// What a failing store makes; nothing was delivered then.
    pub(super) async fn deliver(
        &self,
        due: &DueRange,
        floor: Seq,
        out: &mut Deliveries,
    ) -> Result<Option<Seq>, Error> {
        let conversation = due.conversation;
        let Some(bounds) = self.bounds(conversation).await? else { return Ok(None) };
        let range = bounds.with(due.last);
        let begin = due.first.unwrap_or_else(|| bounds.joined().unwrap_or_default());
        let (first, last) = (begin.max(floor + 1).max(range.min), range.max);
        let sent_from = if due.only_named { last + 1 } else { first.max(last - self.backlog() + 1) };
        let missed = (first < sent_from).then_some((first, sent_from - 1));
        if let Some(messages) = fresh(due, sent_from, last) {
            self.push(missed, conversation, messages, out);
            return Ok(None);
        }
        let page = self.page(conversation, sent_from, last).await?;
        let done_up_to = page.messages.last().map(|message| message.seq).filter(|_| page.more);
        self.push(missed, conversation, page.messages, out);
        Ok(done_up_to)
    }

    /// What bounds the user; `None`: it may read nothing of the conversation.
    async fn bounds(&self, conversation: ConversationId) -> Result<Option<Bounds>, Error> {
        let bounds = self.messages().seen_bounds(Some(self.user), &[conversation]).await?;
        match bounds.into_iter().next().unwrap_or_else(|| Err(no_conversation())) {
            Ok(bounds) => Ok(Some(bounds)),
            Err(error) if error.reason() == Reason::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads messages as they are now. They are there: the inbox names only messages that are stored.
    async fn page(&self, conversation: ConversationId, first: Seq, last: Seq) -> Result<Page, Error> {
        if last < first {
            return Ok(Page::empty());
        }
        let asked = Pull { conversation, from: first, to: last, limit: PAGE_MAX, at_least: last };
        match self.messages().pull(Some(self.user), asked).await {
            // It left the group meanwhile.
            Err(error) if error.reason() == Reason::NotFound => Ok(Page::empty()),
            page => page,
        }
    }

    fn push(
        &self,
        missed: Option<(Seq, Seq)>,
        conversation: ConversationId,
        messages: Vec<Message>,
        out: &mut Deliveries,
    ) {
        if let Some((from_seq, to_seq)) = missed {
            out.push(What::Missed(Missed { conversation_id: conversation.to_string(), from_seq, to_seq }));
        }
        for message in messages {
            out.push(What::Message(message_to_wire(message, conversation, self.principal)));
        }
    }

    fn backlog(&self) -> Seq {
        Seq::try_from(self.parts.config.backlog_max).unwrap_or(Seq::MAX)
    }
}

/// The messages from `first` to `last`, if a wake brought them a moment ago: a later one may have been recalled. The clocks of the
/// nodes may differ; the messages are used only if the time of sending is near the time of this node.
fn fresh(due: &DueRange, first: Seq, last: Seq) -> Option<Vec<Message>> {
    let Fresh { sent, heard } = due.fresh.as_ref().filter(|_| first <= last)?;
    let age = Timestamp::now().0.abs_diff(sent.sent.0);
    if u128::from(age) >= FRESH_FOR.as_millis() || heard.elapsed() >= FRESH_FOR {
        return None;
    }
    let count = Seq::try_from(sent.entries.len()).ok()?;
    let numbers = sent.last - count + 1..=sent.last;
    if first < *numbers.start() || sent.last < last {
        return None;
    }
    let wanted = numbers.zip(&sent.entries).filter(|(seq, _)| (first..=last).contains(seq));
    wanted.map(|(seq, bytes)| entry::decode(bytes, seq)).collect()
}
