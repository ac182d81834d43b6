//! Reduces an inbox's ranges to the messages that a user may read.

use std::sync::Arc;

use kith_delivery::entry;
use kith_proto::message::v1::{Missed, delivery::What};
use kith_store::{ConversationId, Message, Seq, SeqRange, Timestamp, UserId};

use super::{
    super::{
        Messages, ReadBounds, message_to_wire, no_conversation,
        reading::{ForwardRead, MessagePage, PAGE_MAX},
    },
    FRESH_FOR,
    response::Deliveries,
    waker::FreshMessages,
};
use crate::{
    error::{Error, Reason},
    rpc::call::Principal,
};

/// Messages to be delivered.
#[derive(Clone, Debug)]
pub(super) struct DueRange {
    pub(super) conversation: ConversationId,
    /// `None`: the conversation is new to the user.
    pub(super) first: Option<Seq>,
    pub(super) last: Seq,
    /// Whether the stream reads them without the inbox.
    pub(super) from_log: bool,
    /// Whether none is sent: the client has to pull them.
    pub(super) pull_only: bool,
    /// The messages from a wake.
    pub(super) fresh: Option<FreshMessages>,
}

/// The user, and the most messages from one conversation at once.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) parts: Arc<super::ReceiversInner>,
    pub(super) user: UserId,
    /// The account's number; `None`: it could not be read when the stream began.
    pub(super) account: Option<u32>,
    pub(super) principal: Principal,
}

impl Reader {
    /// The account's number; `None`: it is not known yet.
    pub(super) fn account(&self) -> Option<u32> {
        let accesses = self.messages().dependencies.users.accesses();
        self.account.or_else(|| accesses.known(self.user, None).and_then(Result::ok))
    }

    fn messages(&self) -> &Messages {
        &self.parts.messages
    }

    /// Delivers a range's messages above `floor` that the user may read now. Returns the number up to which
    /// they are delivered if some are left.
    ///
    /// # Errors
    /// The store's errors; nothing was delivered then.
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
        let (first, last) = (begin.max(floor.saturating_add(1)).max(range.min), range.max);
        let sent_from = if due.pull_only { last + 1 } else { first.max(last - self.backlog() + 1) };
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

    /// The user's bounds; `None`: it may read nothing in the conversation.
    async fn bounds(&self, conversation: ConversationId) -> Result<Option<ReadBounds>, Error> {
        let bounds = self.messages().seen_bounds(Some(self.user), &[conversation]).await?;
        match bounds.into_iter().next().unwrap_or_else(|| Err(no_conversation())) {
            Ok(bounds) => Ok(Some(bounds)),
            Err(error) if error.reason() == Reason::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the present messages. They exist: the inbox contains only stored messages.
    async fn page(&self, conversation: ConversationId, first: Seq, last: Seq) -> Result<MessagePage, Error> {
        if last < first {
            return Ok(MessagePage::empty());
        }
        let asked = ForwardRead { conversation, from: first, to: last, limit: PAGE_MAX, at_least: last };
        match self.messages().pull(Some(self.user), asked).await {
            // It left the group in between.
            Err(error) if error.reason() == Reason::NotFound => Ok(MessagePage::empty()),
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
        let first = missed.map(|(first, _)| first).or_else(|| messages.first().map(|first| first.seq));
        let last = messages.last().map(|last| last.seq).or_else(|| missed.map(|(_, last)| last));
        if let Some((first, last)) = first.zip(last) {
            out.add_range(conversation, SeqRange { first, last });
        }
        if let Some((from_seq, to_seq)) = missed {
            out.push(What::Missed(Missed { conversation_id: conversation.to_string(), from_seq, to_seq }));
        }
        for message in messages {
            out.push(What::Message(message_to_wire(message, conversation.to_string(), self.principal)));
        }
    }

    fn backlog(&self) -> Seq {
        Seq::try_from(self.parts.config.backlog_max).unwrap_or(Seq::MAX)
    }
}

/// The messages from `first` to `last`, if they are in a recent wake: an older message may have been
/// recalled. The nodes' clocks may differ; the messages are used only if the send time is near this node's
/// time.
fn fresh(due: &DueRange, first: Seq, last: Seq) -> Option<Vec<Message>> {
    let FreshMessages { sent, received_at } = due.fresh.as_ref().filter(|_| first <= last)?;
    let age = Timestamp::now().0.abs_diff(sent.sent.0);
    if u128::from(age) >= FRESH_FOR.as_millis() || received_at.elapsed() >= FRESH_FOR {
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

#[cfg(test)]
mod tests {
    use kith_delivery::SentMessages;
    use tokio::time::Instant;

    use super::{super::super::sample::stored, *};

    /// A wake with messages 5, 6 and 7, which were sent this long before now by the sender's clock.
    fn woken(sent_before_ms: i64) -> DueRange {
        let conversation = "g9".parse().unwrap();
        let entries = [5, 6, 7].map(|seq| entry::encode(&stored(seq, 3)).unwrap()).into();
        let sent = Timestamp(Timestamp::now().0 - sent_before_ms);
        let sent = SentMessages { conversation, last: 7, sent, entries };
        let fresh = Some(FreshMessages { sent: Arc::new(sent), received_at: Instant::now() });
        DueRange { conversation, first: Some(5), last: 7, from_log: false, pull_only: false, fresh }
    }

    fn seqs(due: &DueRange, first: Seq, last: Seq) -> Option<Vec<Seq>> {
        fresh(due, first, last).map(|messages| messages.into_iter().map(|message| message.seq).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn late_wake_shows_no_recalled_text() {
        let due = woken(0);
        assert_eq!(seqs(&due, 5, 7), Some(vec![5, 6, 7]));
        tokio::time::advance(FRESH_FOR).await;
        assert_eq!(seqs(&due, 5, 7), None, "it waited on this node");
        assert_eq!(seqs(&woken(2_000), 5, 7), None, "it was on its way for so long");
        assert_eq!(
            seqs(&woken(-2_000), 5, 7),
            None,
            "the clock of the sender is ahead: its age is not known"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn wake_brings_only_what_it_has() {
        let due = woken(0);
        assert_eq!(seqs(&due, 6, 6), Some(vec![6]));
        assert_eq!(seqs(&due, 4, 7), None);
        assert_eq!(seqs(&due, 5, 8), None);
        assert_eq!(seqs(&due, 8, 7), None);
        let damaged = |mut due: DueRange| {
            let fresh = due.fresh.as_mut().unwrap();
            Arc::make_mut(&mut fresh.sent).entries[1] = prost::bytes::Bytes::from_static(b"?");
            due
        };
        assert_eq!(seqs(&damaged(woken(0)), 5, 7), None, "it is read instead");
    }
}
