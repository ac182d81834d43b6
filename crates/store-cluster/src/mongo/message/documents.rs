//! Log documents, and what an append asks of them.

use std::{collections::HashMap, fmt};

use async_trait::async_trait;
use kith_store::{
    ContentHash, ConversationId, DOCUMENT, LogEnd, MessageKey, NewMessage, Seq, StoreError, Timestamp,
};
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};

use super::{
    super::{
        command,
        document::{number, number_in},
        error::{malformed, write_failed},
    },
    element::{self, element},
};

/// Path that exists only in a full document.
const LAST_ELEMENT: &str = "m.99";

/// Log documents, for appends.
#[async_trait]
pub(super) trait Documents: fmt::Debug + Sync {
    /// Finds a log's last document, with read concern majority.
    async fn tail(&self, conversation: ConversationId) -> Result<Option<DocumentSummary>, StoreError>;

    /// Adds messages at the end of a document that is not full and has none of their keys; messages that do
    /// not fit are left out. Atomic, and durable once it returns, unless it was not seen.
    async fn push(
        &self,
        conversation: ConversationId,
        document: i64,
        messages: &[&NewMessage],
    ) -> Result<PushOutcome, StoreError>;

    /// Makes a document with messages, at least one and at most [`DOCUMENT`], after messages with this
    /// highest time. Changes no existing document.
    async fn make(
        &self,
        conversation: ConversationId,
        document: i64,
        messages: &[&NewMessage],
        before: Highest,
    ) -> Result<DocumentInsert, StoreError>;

    /// Looks keys up, linearizable: found messages are on a majority, and others are not in the log.
    async fn find_sent(
        &self,
        conversation: ConversationId,
        keys: &[MessageKey],
    ) -> Result<HashMap<MessageKey, EarlierSend>, StoreError>;
}

/// A document, without its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DocumentSummary {
    pub(super) document: i64,
    /// How many messages it has.
    pub(super) size: i64,
    /// When the last message was sent.
    pub(super) sent: Option<Timestamp>,
    /// The highest time up to its last message.
    pub(super) highest: Highest,
}

/// The highest time among a log's messages up to a point. `None`: not known, because a document from an
/// earlier version has none; then the documents after it get none either, until upkeep has completed it.
pub(super) type Highest = Option<Timestamp>;

/// The highest time before a log's first message.
pub(super) const BEFORE_ALL: Highest = Some(Timestamp(i64::MIN));

/// The result when messages are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PushOutcome {
    /// How many messages the document had before, and the highest time up to them; it was filled from the
    /// batch's first message on.
    After(i64, Highest),
    /// It does not exist, is full, or has one of the keys.
    Unmatched,
    /// Another document has one of the keys.
    Duplicate,
    /// It was not seen in the document, and may have been applied nevertheless.
    Unseen,
}

/// The result when a document is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DocumentInsert {
    /// It has all the messages.
    Inserted,
    /// It exists, or another document has one of the keys.
    Duplicate,
}

/// A message that is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EarlierSend {
    pub(super) seq: Seq,
    /// The content's hash; `None`: the message was erased.
    pub(super) hash: Option<ContentHash>,
    pub(super) sent: Timestamp,
}

impl DocumentSummary {
    pub(super) fn is_full(&self) -> bool {
        self.size >= DOCUMENT
    }

    /// The end of the log if this is its last document.
    pub(super) fn end(&self) -> LogEnd {
        LogEnd { seq: self.document * DOCUMENT + self.size, sent: self.sent }
    }
}

/// A document's id.
pub(in crate::mongo) fn id(conversation: ConversationId, document: i64) -> Document {
    doc! { "c": conversation.to_string(), "d": document }
}

/// The ids of all a log's documents.
pub(super) fn documents_of(conversation: ConversationId) -> Document {
    let conversation = conversation.to_string();
    let (first, last) = (Bson::MinKey, Bson::MaxKey);
    doc! { "_id": { "$gte": { "c": &conversation, "d": first }, "$lte": { "c": &conversation, "d": last } } }
}

/// Matches a document that is not full and has none of the keys that these messages have.
pub(super) fn room_in(conversation: ConversationId, document: i64, messages: &[&NewMessage]) -> Document {
    let keys: Vec<Bson> = messages.iter().map(|new| element::key(new.key)).collect();
    doc! {
        "_id": id(conversation, document),
        LAST_ELEMENT: { "$exists": false },
        "m.k": { "$nin": keys },
    }
}

/// Adds messages to a document. If not all fit, the first ones are added.
pub(super) fn push_update(messages: &[&NewMessage]) -> Document {
    doc! { "$push": { "m": { "$each": elements(messages), "$slice": DOCUMENT } } }
}

/// Projects to the number of messages, as `n`.
pub(super) fn size() -> Document {
    doc! { "_id": 0, "n": { "$size": "$m" } }
}

/// Projects to the number of messages, and to what [`highest_in`] reads.
pub(super) fn size_and_highest() -> Document {
    doc! { "_id": 0, "n": { "$size": "$m" }, "hi": 1, "tm": { "$max": "$m.t" } }
}

/// The fields in a document with this highest time up to its first message. Upkeep removes `age` once the
/// messages before it are hidden.
pub(super) fn times_up_to(highest: Timestamp) -> Document {
    doc! { "hi": highest.0, "age": highest.0 }
}

/// The highest time up to a document's last message, from `hi` and the latest time among its messages.
pub(super) fn highest_of(hi: Option<i64>, latest: Option<i64>) -> Highest {
    hi.map(|hi| Timestamp(hi.max(latest.unwrap_or(hi))))
}

/// A document with messages, after messages with this highest time.
///
/// # Errors
/// If it cannot be encoded.
pub(super) fn new_document(
    conversation: ConversationId,
    document: i64,
    messages: &[&NewMessage],
    before: Highest,
) -> Result<RawDocumentBuf, StoreError> {
    let begun = messages.first().map_or(Timestamp(0), |first| first.sent);
    let now = Timestamp::now();
    let mut made = doc! { "_id": id(conversation, document), "v": 1_i64, "t0": begun.0, "made": now.0 };
    if let Some(before) = before {
        made.extend(times_up_to(before.max(begun)));
    }
    made.insert("m", elements(messages));
    RawDocumentBuf::try_from(&made).map_err(|_| malformed("document"))
}

/// The size that a reply with this many documents has.
pub(super) fn reply_size(documents: usize) -> u32 {
    u32::try_from(documents.saturating_add(1)).unwrap_or(u32::MAX)
}

/// Projection to a [`DocumentSummary`].
pub(super) fn size_and_time() -> Document {
    doc! {
        "n": { "$size": "$m" },
        "t": { "$arrayElemAt": ["$m.t", -1] },
        "hi": 1,
        "tm": { "$max": "$m.t" },
    }
}

/// Reads what [`size_and_time`] projects.
pub(super) fn summary_in(found: &RawDocument) -> Result<DocumentSummary, StoreError> {
    let sent = found.get("t").map_err(|_| malformed("t"))?;
    Ok(DocumentSummary {
        document: document_in(found)?,
        size: number_in(found, "n")?.ok_or_else(|| malformed("n"))?,
        sent: sent.map(|sent| number(sent, "t")).transpose()?.map(Timestamp),
        highest: highest_of(number_in(found, "hi")?, number_in(found, "tm")?),
    })
}

/// A document's conversation.
pub(super) fn conversation_in(found: &RawDocument) -> Result<ConversationId, StoreError> {
    let id = found.get_document("_id").map_err(|_| malformed("_id"))?;
    id.get_str("c").ok().and_then(|text| ConversationId::stored(text).ok()).ok_or_else(|| malformed("c"))
}

/// A document's number.
pub(super) fn document_in(found: &RawDocument) -> Result<i64, StoreError> {
    let id = found.get_document("_id").map_err(|_| malformed("_id"))?;
    number_in(id, "d")?.ok_or_else(|| malformed("d"))
}

fn elements(messages: &[&NewMessage]) -> Vec<Document> {
    messages.iter().map(|new| element(new)).collect()
}

/// Reads a push's reply. It was applied if it matched, also if its reply cannot be read.
pub(super) fn push_outcome(reply: &Document) -> Result<PushOutcome, StoreError> {
    let unreadable = || write_failed(command::malformed());
    match reply.get("value") {
        Some(Bson::Null) => Ok(PushOutcome::Unmatched),
        Some(Bson::Document(before)) => {
            let size = before.get("n").and_then(whole).filter(|size| (0..DOCUMENT).contains(size));
            let time = |field| before.get(field).and_then(whole);
            let highest = highest_of(time("hi"), time("tm"));
            size.map(|size| PushOutcome::After(size, highest)).ok_or_else(unreadable)
        }
        _ => Err(unreadable()),
    }
}

fn whole(value: &Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}

#[cfg(test)]
mod tests {
    use kith_store::Outcome;

    use super::*;

    #[test]
    fn reply_of_a_push_is_read() {
        let before = |n: Bson| doc! { "ok": 1, "value": { "n": n } };
        assert_eq!(push_outcome(&before(Bson::Int32(97))).unwrap(), PushOutcome::After(97, None));
        assert_eq!(push_outcome(&before(Bson::Int64(0))).unwrap(), PushOutcome::After(0, None));
        let times = |hi: i64, latest: i64| doc! { "value": { "n": 7, "hi": hi, "tm": latest } };
        for (hi, latest) in [(5, 9), (9, 5)] {
            let read = push_outcome(&times(hi, latest)).unwrap();
            assert_eq!(read, PushOutcome::After(7, Some(Timestamp(9))));
        }
        assert_eq!(push_outcome(&doc! { "ok": 1, "value": Bson::Null }).unwrap(), PushOutcome::Unmatched);
    }

    #[test]
    fn push_whose_reply_cannot_be_read_is_unknown() {
        for reply in [
            doc! { "ok": 1 },
            doc! { "ok": 1, "value": 7 },
            doc! { "ok": 1, "value": {} },
            doc! { "ok": 1, "value": { "n": "97" } },
            doc! { "ok": 1, "value": { "n": 100 } },
            doc! { "ok": 1, "value": { "n": -1 } },
        ] {
            assert_eq!(push_outcome(&reply).unwrap_err().outcome(), Outcome::Unknown, "{reply}");
        }
    }
}
