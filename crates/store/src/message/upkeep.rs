//! How messages, and their contents, are removed.

use std::{fmt, ops::Range, time::Duration};

use async_trait::async_trait;

use super::{ConversationId, DocumentKey, Seq, document_of};
use crate::{StoreError, Timestamp, UserId};

/// The most documents that one [`MessageUpkeep::trim`] removes.
pub const TRIMMED_AT_ONCE: usize = 20;

/// How many of a log's oldest documents a backend examines for [`removable_documents`].
pub const DOCUMENTS_READ: usize = TRIMMED_AT_ONCE + 2;

/// How old the document after a removed document must be. A node that has found a document full may make the
/// next document for a minute, by a clock that may be wrong: it must not make it where others were removed.
pub const SUCCESSOR_AGE: Duration = Duration::from_secs(3_600);

/// The most documents that one [`MessageUpkeep::documents_sent_by`] examines.
pub const SEARCHED_AT_ONCE: usize = 20;

/// The result of a [`MessageUpkeep::trim`] call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimResult {
    /// How many messages were removed.
    pub messages: u64,
    /// Whether more messages are to be removed.
    pub left: TrimRemainder,
}

/// The remainder after a [`MessageUpkeep::trim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimRemainder {
    /// Only the last document, if any, has nothing but messages that are to be removed.
    Nothing,
    /// There are others that can be removed now.
    Some,
    /// There are others that cannot be removed yet.
    TooYoung,
}

/// A document, as [`MessageUpkeep::aged`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgedDocument {
    /// The highest time among its first message and all messages before it, also those that were removed.
    /// Never falls from one document in a log to the next, although message times may.
    pub highest: Timestamp,
    /// The conversation that it belongs to.
    pub conversation: ConversationId,
    /// Its first message's number. All documents before it in the conversation are full, or were removed.
    pub first: Seq,
}

/// The result of a [`MessageUpkeep::complete_times`] call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompletedTimes {
    /// How many documents had no highest time and got it.
    pub completed: u64,
    /// Where the next part begins; `None`: there are no further documents.
    pub next: Option<DocumentKey>,
}

/// The result of a [`MessageUpkeep::documents_sent_by`] call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentDocuments {
    /// The documents' first numbers, rising.
    pub firsts: Vec<Seq>,
    /// The number at which the search continues; `None`: the log has no other documents.
    pub next: Option<Seq>,
}

/// Removes messages from their logs, and their contents. A document with [`DOCUMENT`](super::DOCUMENT)
/// messages is removed as a whole, see [`document_of`](super::document_of).
///
/// Invariant: a log's last document is never removed, so that numbers continue. The caller checks whether
/// users may still read the messages.
#[async_trait]
pub trait MessageUpkeep: Send + Sync + fmt::Debug + 'static {
    /// Removes a log's oldest documents, as long as all messages in a document have numbers below `below` and
    /// the document after it was begun [`SUCCESSOR_AGE`] before `now` or earlier: at most
    /// [`TRIMMED_AT_ONCE`].
    ///
    /// Not atomic: documents are removed one after the other, in any order. May be repeated whatever its
    /// outcome was, and by several callers at once.
    ///
    /// # Errors
    /// See [`StoreError::outcome`]; some documents may have been removed.
    async fn trim(
        &self,
        conversation: ConversationId,
        below: Seq,
        now: Timestamp,
    ) -> Result<TrimResult, StoreError>;

    /// Reads up to `limit` documents from all logs that are not settled and whose highest time is in this
    /// range, by rising time. Then every message before such a document, and its first message, was sent
    /// before the end of the range.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn aged(&self, highest: Range<Timestamp>, limit: usize) -> Result<Vec<AgedDocument>, StoreError>;

    /// Settles documents: [`MessageUpkeep::aged`] does not return them again. May be repeated.
    ///
    /// # Errors
    /// See [`StoreError::outcome`]; some may have been settled.
    async fn settle_aged(&self, documents: &[AgedDocument]) -> Result<(), StoreError>;

    /// Adds the highest times to documents from an earlier version, which lack them: examines up to `limit`
    /// documents from all logs from `from` on, in the backend's order. A log's times are not used until its
    /// last document has a time. A backend whose migration has added them examines none.
    ///
    /// # Errors
    /// See [`StoreError::outcome`]. May be repeated.
    async fn complete_times(
        &self,
        from: Option<DocumentKey>,
        limit: usize,
    ) -> Result<CompletedTimes, StoreError>;

    /// Examines up to [`SEARCHED_AT_ONCE`] documents in a log, with numbers from `from` on, and returns those
    /// with a sender's content: messages that [`MessageUpkeep::erase_document`] changes.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn documents_sent_by(
        &self,
        conversation: ConversationId,
        sender: UserId,
        from: Seq,
    ) -> Result<SentDocuments, StoreError>;

    /// Removes the content of all a sender's messages in one document, given by its first number: content
    /// type, body, mentions, the client's id and the hash. Number, sender, time and key are kept. Messages
    /// that were recalled already are kept as they are; the others are recalled by
    /// [`RecalledBy::Erasure`](super::RecalledBy::Erasure). Events are unchanged. Returns how many messages
    /// changed.
    ///
    /// Atomic. Repeating it changes nothing. A message without a hash is equal to every message that is sent
    /// with its key.
    ///
    /// # Errors
    /// See [`StoreError::outcome`].
    async fn erase_document(
        &self,
        conversation: ConversationId,
        first: Seq,
        sender: UserId,
        now: Timestamp,
    ) -> Result<u64, StoreError>;
}

/// Decides, for all backends, which of a log's oldest documents are removed.
///
/// `documents`: each document's number, rising, and when it was begun, from the first document on:
/// [`DOCUMENTS_READ`] documents, or all if there are fewer. Returns how many documents to remove, from the
/// first on, and the remainder.
#[must_use]
pub fn removable_documents(
    documents: &[(i64, Timestamp)],
    below: Seq,
    now: Timestamp,
) -> (usize, TrimRemainder) {
    for (at, pair) in documents.windows(2).enumerate() {
        let &[(document, _), (_, next_begun)] = pair else { break };
        if below < 1 || document >= document_of(below) {
            return (at, TrimRemainder::Nothing);
        }
        if next_begun.after(SUCCESSOR_AGE) > now {
            return (at, TrimRemainder::TooYoung);
        }
        if at >= TRIMMED_AT_ONCE {
            return (at, TrimRemainder::Some);
        }
    }
    (documents.len().saturating_sub(1), TrimRemainder::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(10_000_000);
    const OLD: Timestamp = Timestamp(NOW.0 - 3_600_000);
    const YOUNG: Timestamp = Timestamp(OLD.0 + 1);

    fn removable(begun: &[Timestamp], below: Seq) -> (usize, TrimRemainder) {
        let documents: Vec<(i64, Timestamp)> = (0..).zip(begun.iter().copied()).collect();
        removable_documents(&documents, below, NOW)
    }

    #[test]
    fn documents_wholly_below_are_removed() {
        for (below, count) in [(-1, 0), (1, 0), (100, 0), (101, 1), (200, 1), (201, 2), (i64::MAX, 2)] {
            assert_eq!(removable(&[OLD; 3], below), (count, TrimRemainder::Nothing), "{below}");
        }
    }

    #[test]
    fn last_document_stays() {
        assert_eq!(removable(&[], i64::MAX), (0, TrimRemainder::Nothing));
        assert_eq!(removable(&[OLD], i64::MAX), (0, TrimRemainder::Nothing));
    }

    #[test]
    fn young_successor_keeps_a_document() {
        assert_eq!(removable(&[OLD, OLD, YOUNG, OLD], i64::MAX), (1, TrimRemainder::TooYoung));
        assert_eq!(removable(&[YOUNG, OLD, YOUNG], 101), (1, TrimRemainder::Nothing));
    }

    #[test]
    fn one_step_is_bounded() {
        let documents = [OLD; DOCUMENTS_READ];
        assert_eq!(removable(&documents, i64::MAX), (TRIMMED_AT_ONCE, TrimRemainder::Some));
        assert_eq!(removable(&documents[1..], i64::MAX), (TRIMMED_AT_ONCE, TrimRemainder::Nothing));
    }
}
