//! Reads messages, and their times.

use kith_store::{
    ConversationId, DOCUMENT, DocumentKey, LogDocument, Message, Seq, StoreError, Timestamp, Version,
    document_of, in_one_document,
};
use mongodb::{
    bson::{Document, RawDocumentBuf, doc},
    options::Hint,
};

use super::{
    super::{
        database::Mongo,
        document::{moment, number_in},
        error::{malformed, read_failed},
    },
    documents::{Documents as _, document_in, documents_of, id},
    element::{elements_in, message},
};

/// The highest time up to a document's first message, and its index. It never falls within a log.
const BY_HIGHEST: TimeIndex =
    TimeIndex { name: "by_highest", field: "hi", order: || doc! { "hi": -1, "_id.d": -1 } };
/// The time of a document's first message, and its index. For documents from an earlier version, until upkeep
/// has completed them.
const BY_FIRST: TimeIndex = TimeIndex { name: "by_time", field: "t0", order: || doc! { "t0": -1 } };

/// An index over a log's documents by a time.
#[derive(Clone, Copy)]
struct TimeIndex {
    name: &'static str,
    field: &'static str,
    /// The latest first. Documents may have the same highest time: then the last document is meant.
    order: fn() -> Document,
}

/// When a document's messages were sent.
struct Times {
    document: i64,
    sent: Vec<Timestamp>,
}

impl Times {
    /// The number of the first message that was sent at this time or later.
    fn first_at(&self, time: Timestamp) -> Option<Seq> {
        let mut numbers = (self.document * DOCUMENT + 1..).zip(&self.sent);
        numbers.find(|(_, sent)| **sent >= time).map(|(seq, _)| seq)
    }

    /// The number after its last message.
    fn next(&self) -> Seq {
        self.document * DOCUMENT + i64::try_from(self.sent.len()).unwrap_or(DOCUMENT) + 1
    }
}

impl Mongo {
    /// See [`MessageStore::messages`](kith_store::MessageStore::messages).
    pub(super) async fn messages_between(
        &self,
        conversation: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<Message>, StoreError> {
        in_one_document(first, last)?;
        if last < first {
            return Ok(Vec::new());
        }
        let document = document_of(first);
        let slice = [first - document * DOCUMENT - 1, last - first + 1];
        let find = self.messages.find_one(doc! { "_id": id(conversation, document) });
        let find = find.projection(doc! { "m": { "$slice": &slice[..] } }).max_time(self.options.command);
        match find.await.map_err(read_failed)? {
            Some(found) => messages_in(&found, first),
            None => Ok(Vec::new()),
        }
    }

    /// See [`MessageStore::document`](kith_store::MessageStore::document).
    pub(super) async fn whole_document(&self, key: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
        let find = self.messages.find_one(doc! { "_id": id(key.conversation, key.document) });
        let find = find.projection(doc! { "v": 1, "m": 1 }).max_time(self.options.command);
        let Some(found) = find.await.map_err(read_failed)? else { return Ok(None) };
        let version = number_in(&found, "v")?.and_then(Version::new).ok_or_else(|| malformed("v"))?;
        Ok(Some(LogDocument { key, version, messages: messages_in(&found, key.first())? }))
    }

    /// See [`MessageStore::seq_at`](kith_store::MessageStore::seq_at).
    pub(super) async fn first_sent_at(
        &self,
        conversation: ConversationId,
        time: Timestamp,
    ) -> Result<Seq, StoreError> {
        let Some(tail) = self.tail(conversation).await? else { return Ok(1) };
        // If the last document has its highest time, all do.
        let by = if tail.highest.is_some() { BY_HIGHEST } else { BY_FIRST };
        let Some(mut times) = self.begun_before(conversation, time, by).await? else {
            return self.first_number(conversation).await;
        };
        loop {
            match times.first_at(time) {
                Some(seq) => return Ok(seq),
                None if times.next() <= (times.document + 1) * DOCUMENT => return Ok(times.next()),
                None => {}
            }
            // Several documents can begin at the same time.
            match self.times(conversation, times.document + 1).await? {
                Some(following) => times = following,
                None => return Ok(times.next()),
            }
        }
    }

    /// The last document whose time was before this time, by a field and its index.
    async fn begun_before(
        &self,
        conversation: ConversationId,
        time: Timestamp,
        index: TimeIndex,
    ) -> Result<Option<Times>, StoreError> {
        let filter = doc! { "_id.c": conversation.to_string(), index.field: { "$lt": time.0 } };
        let find = self.messages.find_one(filter).sort((index.order)()).projection(doc! { "m.t": 1 });
        let find = find.hint(Hint::Name(index.name.to_owned())).max_time(self.options.command);
        find.await.map_err(read_failed)?.map(times_in).transpose()
    }

    async fn times(&self, conversation: ConversationId, document: i64) -> Result<Option<Times>, StoreError> {
        let find = self.messages.find_one(doc! { "_id": id(conversation, document) });
        let find = find.projection(doc! { "m.t": 1 }).max_time(self.options.command);
        find.await.map_err(read_failed)?.map(times_in).transpose()
    }

    /// The first stored message's number; 1 if there is none.
    async fn first_number(&self, conversation: ConversationId) -> Result<Seq, StoreError> {
        let find = self.messages.find_one(documents_of(conversation)).sort(doc! { "_id": 1 });
        let find = find.projection(doc! { "_id": 1 }).max_time(self.options.command);
        match find.await.map_err(read_failed)? {
            Some(found) => Ok(document_in(&found)? * DOCUMENT + 1),
            None => Ok(1),
        }
    }
}

/// The messages in a document that was read from the message with this number on.
fn messages_in(found: &RawDocumentBuf, first: Seq) -> Result<Vec<Message>, StoreError> {
    (first..).zip(elements_in(found)?).map(|(seq, element)| message(element?, seq)).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "handed to map")]
fn times_in(found: RawDocumentBuf) -> Result<Times, StoreError> {
    let sent = elements_in(&found)?
        .map(|element| moment(element?.get("t").ok().flatten().ok_or_else(|| malformed("t"))?, "t"));
    Ok(Times { document: document_in(&found)?, sent: sent.collect::<Result<_, _>>()? })
}
