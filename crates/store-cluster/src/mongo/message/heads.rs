//! Log heads, and headers: reads without contents.

use std::collections::{HashMap, HashSet};

use kith_store::{
    ConversationId, DOCUMENT, HEADS_AT_ONCE, LogHead, Message, Seq, StoreError, StoredHeader, at_most,
    document_of, document_parts, in_one_document,
};
use mongodb::bson::{Bson, Document, RawDocument, doc};

use super::{
    super::{
        database::Mongo,
        error::{malformed, read_failed},
    },
    documents::{conversation_in, document_in, id, reply_size},
    element::{header, message},
};

/// A document in a log.
type DocumentKey = (ConversationId, i64);

/// The headers to be read from a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Headers {
    All,
    /// Only the last message's header.
    Last,
}

/// The part of a document for a head.
#[derive(Debug)]
struct HeadPart {
    document: i64,
    /// Its last messages' headers.
    headers: Vec<StoredHeader>,
    /// The last message, unless the document is full.
    last: Option<Message>,
}

impl HeadPart {
    fn is_full(&self) -> bool {
        self.end() == (self.document + 1) * DOCUMENT
    }

    /// The last message's number.
    fn end(&self) -> Seq {
        self.headers.last().map_or(self.document * DOCUMENT, |header| header.seq)
    }
}

impl Mongo {
    /// See [`MessageStore::headers`](kith_store::MessageStore::headers).
    pub(super) async fn headers_between(
        &self,
        conversation: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<StoredHeader>, StoreError> {
        in_one_document(first, last)?;
        if last < first {
            return Ok(Vec::new());
        }
        let document = document_of(first);
        let skipped = first - document * DOCUMENT - 1;
        let some = doc! { "$slice": ["$m", skipped, last - first + 1] };
        let find = self.messages.find_one(doc! { "_id": id(conversation, document) });
        let find = find.projection(doc! { "h": headers_of(some) }).max_time(self.options.command);
        match find.await.map_err(read_failed)? {
            Some(found) => headers_in(&found, first),
            None => Ok(Vec::new()),
        }
    }

    /// See [`MessageStore::heads`](kith_store::MessageStore::heads). Three queries if the ends are known
    /// approximately: one query finds the last documents, and two read them, with the previous documents if
    /// requested, and the next documents, which may have been created in between. The third query is for logs
    /// without requested headers.
    pub(super) async fn log_heads(
        &self,
        asked: &[(ConversationId, Seq)],
    ) -> Result<Vec<LogHead>, StoreError> {
        at_most(asked.len(), HEADS_AT_ONCE)?;
        let logs: Vec<ConversationId> = asked.iter().map(|(log, _)| *log).collect();
        let ends = self.log_ends(&logs).await?;
        let (mut read, mut unread) = (HashSet::new(), HashSet::new());
        for ((log, above), end) in asked.iter().zip(&ends).filter(|(_, end)| end.seq > 0) {
            let document = document_of(end.seq);
            let wanted = if *above < end.seq { &mut unread } else { &mut read };
            wanted.extend([(*log, document), (*log, document + 1)]);
            wanted.extend((0 < document && *above < document * DOCUMENT).then_some((*log, document - 1)));
        }
        let (mut parts, others) =
            tokio::try_join!(self.parts(&unread, Headers::All), self.parts(&read, Headers::Last))?;
        parts.extend(others);
        let mut heads = Vec::with_capacity(asked.len());
        for ((log, above), end) in asked.iter().zip(&ends) {
            let head = if end.seq > 0 {
                self.head(*log, *above, document_of(end.seq), &parts).await?
            } else {
                LogHead::default()
            };
            heads.push(head);
        }
        Ok(heads)
    }

    async fn head(
        &self,
        log: ConversationId,
        above: Seq,
        document: i64,
        parts: &HashMap<DocumentKey, HeadPart>,
    ) -> Result<LogHead, StoreError> {
        let [before, here, next] = [document - 1, document, document + 1].map(|at| parts.get(&(log, at)));
        // A document that was read before it was full is the end at that moment, whatever was read from the
        // next document.
        let next = next.filter(|_| here.is_none_or(HeadPart::is_full));
        let Some(end) = next.or(here) else { return Ok(LogHead::default()) };
        let last = match &end.last {
            Some(last) => Some(last.clone()),
            None => self.messages_between(log, end.end(), end.end()).await?.pop(),
        };
        let first = above.saturating_add(1).max(end.end() - DOCUMENT + 1);
        let read = [before, here, next].into_iter().flatten().flat_map(|part| &part.headers);
        let headers: Vec<StoredHeader> = read.filter(|header| header.seq >= first).cloned().collect();
        let is_whole = end.end() < first || headers.first().is_some_and(|header| header.seq == first);
        // Others arrived in between, or the first messages were removed.
        let headers = if is_whole { headers } else { self.headers_over(log, first, end.end()).await? };
        Ok(LogHead { last, headers })
    }

    /// The headers of messages that may be in several documents.
    async fn headers_over(
        &self,
        log: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<StoredHeader>, StoreError> {
        let mut headers = Vec::new();
        for (first, last) in document_parts(first, last) {
            headers.extend(self.headers_between(log, first, last).await?);
        }
        Ok(headers)
    }

    async fn parts(
        &self,
        wanted: &HashSet<DocumentKey>,
        headers: Headers,
    ) -> Result<HashMap<DocumentKey, HeadPart>, StoreError> {
        if wanted.is_empty() {
            return Ok(HashMap::new());
        }
        let ids: Vec<Document> = wanted.iter().map(|(log, document)| id(*log, *document)).collect();
        let find = self.messages.find(doc! { "_id": { "$in": ids } }).projection(head_fields(headers));
        // The newest first: a change whose event is in a document is seen in the documents before it.
        let find = find.sort(doc! { "_id": -1 }).batch_size(reply_size(wanted.len()));
        let mut cursor = find.max_time(self.options.command).await.map_err(read_failed)?;
        let mut parts = HashMap::with_capacity(wanted.len());
        while cursor.advance().await.map_err(read_failed)? {
            let part = part(cursor.current())?;
            parts.insert((conversation_in(cursor.current())?, part.document), part);
        }
        Ok(parts)
    }
}

/// Headers, the number of messages, and the last message unless the document is full: then the end is nearly
/// always in the next document, and its content need not be read.
fn head_fields(headers: Headers) -> Document {
    let has_room = doc! { "$lt": [{ "$size": "$m" }, DOCUMENT] };
    let last = doc! { "$cond": [has_room, { "$arrayElemAt": ["$m", -1] }, Bson::Null] };
    let some: Bson = match headers {
        Headers::All => "$m".into(),
        Headers::Last => doc! { "$slice": ["$m", -1] }.into(),
    };
    doc! { "h": headers_of(some), "n": { "$size": "$m" }, "l": last }
}

/// Projects an array's messages without their contents.
fn headers_of(messages: impl Into<Bson>) -> Document {
    let fields = doc! { "f": "$$e.f", "y": "$$e.y", "x": "$$e.x", "a": "$$e.a", "r": "$$e.r" };
    doc! { "$map": { "input": messages.into(), "as": "e", "in": fields } }
}

fn part(found: &RawDocument) -> Result<HeadPart, StoreError> {
    let document = document_in(found)?;
    let end = document * DOCUMENT + i64::from(found.get_i32("n").map_err(|_| malformed("m"))?);
    let mut headers = headers_in(found, 1)?;
    let skipped = end - headers.last().map_or(end, |header| header.seq);
    headers.iter_mut().for_each(|header| header.seq += skipped);
    let last = found.get("l").map_err(|_| malformed("m"))?.and_then(|last| last.as_document());
    let last = last.map(|last| message(last, end)).transpose()?;
    Ok(HeadPart { document, headers, last })
}

/// The headers in a document that was read from the message with this number on.
fn headers_in(found: &RawDocument, first: Seq) -> Result<Vec<StoredHeader>, StoreError> {
    let elements = found.get_array("h").map_err(|_| malformed("m"))?;
    let read = (first..).zip(elements).map(|(seq, element)| {
        let element = element.ok().and_then(|element| element.as_document()).ok_or_else(|| malformed("m"))?;
        header(element, seq)
    });
    read.collect()
}
