//! Message senders, for receipts.

use kith_store::{ConversationId, MessageKind, SentMessage, Seq, UserId};

use super::{
    Messages,
    range::{ReadRange, no_conversation},
};
use crate::{dialog::out_of_range, error::Error};

/// The senders of the conversation messages that a reader can read.
#[derive(Debug)]
pub(crate) struct SentMessages {
    /// The messages by rising number, without events.
    messages: Vec<SentMessage>,
    range: ReadRange,
}

impl Messages {
    /// Reads who sent the messages with these numbers. `reader`: a user, whose range bounds them; `None`: a
    /// service.
    ///
    /// # Errors
    /// NOT_FOUND if the reader can read nothing in the conversation, or errors of the store.
    pub(crate) async fn sent_messages(
        &self,
        reader: Option<UserId>,
        conversation: ConversationId,
        mut seqs: Vec<Seq>,
    ) -> Result<SentMessages, Error> {
        let mut messages = Vec::with_capacity(seqs.len());
        loop {
            let page = self.pull_by_seqs(reader, conversation, seqs.clone(), 0).await?;
            let last = page.messages.last().map_or(Seq::MAX, |message| message.seq);
            let sent = page.messages.iter().filter(|message| message.kind == MessageKind::Message);
            messages.extend(sent.map(|message| SentMessage { seq: message.seq, sender: message.sender }));
            if !page.more {
                return Ok(SentMessages { messages, range: page.range });
            }
            seqs.retain(|seq| *seq > last);
        }
    }

    /// Returns which of these messages, which exist and are not events, a reader can read. They are given by
    /// rising number. The log is not read.
    ///
    /// # Errors
    /// The errors of [`Self::sent_messages`].
    pub(crate) async fn known_messages(
        &self,
        reader: Option<UserId>,
        conversation: ConversationId,
        mut messages: Vec<SentMessage>,
    ) -> Result<SentMessages, Error> {
        let bounds = self.seen_bounds(reader, &[conversation]).await?;
        let bounds = bounds.into_iter().next().unwrap_or_else(|| Err(no_conversation()))?;
        // The log ends there, or later.
        let end = messages.last().map_or(0, |message| message.seq);
        let range = bounds.with(bounds.left().unwrap_or(end));
        messages.retain(|message| range.contains(message.seq));
        Ok(SentMessages { messages, range })
    }
}

impl SentMessages {
    /// The messages that the reader can read, by rising number, without events.
    pub(crate) fn messages(&self) -> &[SentMessage] {
        &self.messages
    }

    /// The message with this number, which was among those that were read.
    ///
    /// # Errors
    /// OUT_OF_RANGE if it is above the last number that the reader can read; NOT_FOUND if it is an event or
    /// cannot be read.
    pub(crate) fn find(&self, seq: Seq) -> Result<SentMessage, Error> {
        if seq > self.range.max {
            return Err(out_of_range());
        }
        let found = self.messages.binary_search_by_key(&seq, |message| message.seq);
        found.map(|at| self.messages[at]).map_err(|_| Error::not_found("message"))
    }
}
