//! The store for messages.

use std::fmt;

use async_trait::async_trait;

use super::{
    ConversationId, DocumentKey, LogDocument, LogHead, Message, MessageChange, MessageChangeOutcome,
    NewMessage, Seq, StoredHeader,
};
use crate::{StoreError, Timestamp};

/// How many messages are stored together. An append adds at most this many.
pub const DOCUMENT: i64 = 100;

/// The document that holds the message with this number, from 0. The number is above 0.
#[must_use]
pub const fn document_of(seq: Seq) -> i64 {
    (seq - 1) / DOCUMENT
}

/// Refuses a range that is not in one document.
///
/// # Errors
/// [`StoreError::Overloaded`] for others.
pub const fn in_one_document(first: Seq, last: Seq) -> Result<(), StoreError> {
    if first < 1 || document_of(first) != document_of(last) { Err(StoreError::Overloaded) } else { Ok(()) }
}

/// Splits the numbers from one number, above 0, to another into parts by document, rising: each part's first
/// and last number. Empty if `last` is below `first`.
pub fn document_parts(first: Seq, last: Seq) -> impl DoubleEndedIterator<Item = (Seq, Seq)> {
    let documents = (document_of(first)..=document_of(last)).filter(move |_| first <= last);
    documents.map(move |document| {
        let begin = document * DOCUMENT + 1;
        (first.max(begin), last.min(begin + DOCUMENT - 1))
    })
}

/// How an append ended for one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It was appended and has this number.
    New(Seq),
    /// A message with its key and content exists already.
    Replayed {
        /// The first message's number.
        seq: Seq,
        /// When it was sent.
        sent: Timestamp,
    },
    /// A message with its key and another content exists. This message was not appended.
    OtherContent,
}

/// Where a log ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// The last message's number; 0: there is none.
    pub seq: Seq,
    /// When the last message was sent; `None`: there is none.
    pub sent: Option<Timestamp>,
}

/// Storage for the messages in each conversation.
///
/// A message gets its number from its append. A conversation's numbers are contiguous from 1 and rise in the
/// order of the appends. An acknowledged message is durable, keeps its number, and is seen by every later
/// read.
///
/// Any number of callers on any number of nodes may append to one conversation at once. The caller checks
/// rights, ranges and limits.
#[async_trait]
pub trait MessageStore: Send + Sync + fmt::Debug + 'static {
    /// Appends up to [`DOCUMENT`] messages in their order and returns each result, in the same order. Each
    /// key occurs once. Repeating an append, whatever its outcome was, adds each message once.
    ///
    /// The new messages are durable together or one part after the other: if the batch crosses a document's
    /// border, other callers' messages may come between its two parts.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] for more messages or a repeated key: nothing is appended then. For other
    /// errors see [`StoreError::outcome`]; a part of the batch may have been appended.
    async fn append(
        &self,
        conversation: ConversationId,
        batch: &[NewMessage],
    ) -> Result<Vec<Appended>, StoreError>;

    /// Reads the messages from `first` to `last`, both included, by rising number. Both are above 0 and in
    /// one document (see [`document_of`]). Those that do not exist are left out.
    ///
    /// Costs one store read, for only these messages.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for a range that is not in one document.
    async fn messages(
        &self,
        conversation: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<Message>, StoreError>;

    /// Reads a document as a whole; `None`: there is none.
    ///
    /// Costs one store read.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn document(&self, key: DocumentKey) -> Result<Option<LogDocument>, StoreError>;

    /// Like [`MessageStore::messages`], but without the contents.
    ///
    /// # Errors
    /// Fails like [`MessageStore::messages`].
    async fn headers(
        &self,
        conversation: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<StoredHeader>, StoreError>;

    /// Reads the heads of up to [`HEADS_AT_ONCE`](super::HEADS_AT_ONCE) logs, in the order of `asked`: each
    /// log's last message, and the headers of those of the last [`DOCUMENT`] messages whose numbers are above
    /// the number that is given with it. Each log is read at one moment. Sees every append that was
    /// acknowledged before it began, except for some seconds after a failover.
    ///
    /// Costs a bounded number of store reads for all logs together. Only the last messages are read with
    /// their contents.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more logs.
    async fn heads(&self, asked: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError>;

    /// Reads the messages in a log's last two documents, by rising number. There are 1 to 200, or none if the
    /// log has none. Sees what [`MessageStore::ends`] sees.
    ///
    /// Invariant, for copies of the result: each message has every change that was written together with a
    /// message that is returned. So documents are read newest first, or all at one moment. A backend does it
    /// in one read; this implementation costs up to three.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn last_documents(&self, conversation: ConversationId) -> Result<Vec<Message>, StoreError> {
        let end = self.ends(&[conversation]).await?.first().map_or(0, |end| end.seq);
        if end == 0 {
            return Ok(Vec::new());
        }
        let first = document_of(end) * DOCUMENT + 1;
        let last = self.messages(conversation, first, first + DOCUMENT - 1).await?;
        if first == 1 {
            return Ok(last);
        }
        let mut both = self.messages(conversation, first - DOCUMENT, first - 1).await?;
        both.extend(last);
        Ok(both)
    }

    /// Reads the ends of up to [`BATCH_MAX`](crate::BATCH_MAX) logs, in the order of `conversations`. Sees
    /// every append that was acknowledged before it began, except for some seconds after a failover.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more conversations.
    async fn ends(&self, conversations: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError>;

    /// Reads a log's end, also right after a failover: a deposed primary cannot answer. Costs more than
    /// [`MessageStore::ends`]: a round trip to the majority.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn strong_end(&self, conversation: ConversationId) -> Result<Seq, StoreError>;

    /// Reads the smallest number whose message was sent at `time` or later; the end + 1 if there is none.
    /// Times need not rise: node clocks differ, and imported messages have any time. If such a message was
    /// removed, the result is the first number that is stored.
    ///
    /// Costs up to three store reads.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn seq_at(&self, conversation: ConversationId, time: Timestamp) -> Result<Seq, StoreError>;

    /// Changes one message, if it is in the state that the change needs, and appends the change's event: both
    /// or neither. Returns the message as it is now.
    ///
    /// May be repeated, whatever its outcome was: a change whose event is in the log is not made again. Among
    /// concurrent changes that need the same state, only one is made. Every later read sees the change with
    /// its event; a reader that sees the event and then reads the message sees it changed.
    ///
    /// Costs a transaction over two documents, which is retried while others append to the conversation.
    /// Appends wait for it.
    ///
    /// # Errors
    /// See [`StoreError::outcome`].
    async fn change(
        &self,
        conversation: ConversationId,
        change: &MessageChange,
    ) -> Result<MessageChangeOutcome, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_documents() {
        let all = |first, last| document_parts(first, last).collect::<Vec<_>>();
        assert_eq!(all(1, 100), [(1, 100)]);
        assert_eq!(all(100, 201), [(100, 100), (101, 200), (201, 201)]);
        assert_eq!(all(101, 101), [(101, 101)]);
        assert_eq!(all(100, 101), [(100, 100), (101, 101)]);
        assert_eq!(all(151, 250), [(151, 200), (201, 250)]);
        assert_eq!(all(7, 6), []);
        assert_eq!(all(5, 4), []);
        assert_eq!(all(1, 0), []);
    }
}
