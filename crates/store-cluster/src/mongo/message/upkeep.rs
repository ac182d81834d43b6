//! Removal of documents, and of the contents of messages.

use kith_store::{
    AgedDocument, ConversationId, DOCUMENT, DOCUMENTS_READ, MessageKind, SEARCHED_AT_ONCE, SentDocuments,
    Seq, StoreError, Timestamp, TrimResult, UserId, document_of, removable_documents,
};
use mongodb::{
    bson::{Bson, RawDocument, doc},
    options::Hint,
};

use super::{
    super::{
        connect::Mongo,
        document::{count, moment, number_in},
        error::{malformed, read_failed, write_failed},
        record::all,
    },
    documents::{document_in, documents_of, id},
    element,
    ends::conversation_in,
};

impl Mongo {
    /// See [`MessageUpkeep::trim`](kith_store::MessageUpkeep::trim).
    pub(super) async fn trim_log(
        &self,
        conversation: ConversationId,
        below: Seq,
        now: Timestamp,
    ) -> Result<TrimResult, StoreError> {
        let documents = self.oldest_documents(conversation).await?;
        let (removable, left) = removable_documents(&documents, below, now);
        if removable == 0 {
            return Ok(TrimResult { messages: 0, left });
        }
        let ids = documents.iter().take(removable).map(|(document, _)| id(conversation, *document));
        let filter = doc! { "_id": { "$in": ids.collect::<Vec<_>>() } };
        let removed = self.messages.delete_many(filter).await.map_err(write_failed)?;
        // All but the last one are full, and no document is the last one that was followed by another.
        Ok(TrimResult { messages: removed.deleted_count.saturating_mul(DOCUMENT.unsigned_abs()), left })
    }

    /// The numbers of the oldest documents, and when they were begun.
    async fn oldest_documents(
        &self,
        conversation: ConversationId,
    ) -> Result<Vec<(i64, Timestamp)>, StoreError> {
        let find = self.messages.find(documents_of(conversation)).sort(doc! { "_id": 1 });
        let find = find.projection(doc! { "t0": 1 }).limit(count(DOCUMENTS_READ));
        let cursor = find.max_time(self.options.command).await.map_err(read_failed)?;
        all(cursor, |found| Ok((document_in(found)?, begun(found)?))).await
    }

    /// See [`MessageUpkeep::aged`](kith_store::MessageUpkeep::aged).
    pub(super) async fn aged_documents(
        &self,
        from: Timestamp,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<AgedDocument>, StoreError> {
        let mut found = self.begun_between(from, before, count(limit)).await?;
        // Those of the last millisecond that did not fit. No limit: 0.
        if let Some(last) = found.last().filter(|_| found.len() >= limit).map(|last| last.begun) {
            found.retain(|one| one.begun < last);
            found.extend(self.begun_between(last, Timestamp(last.0 + 1), 0).await?);
        }
        Ok(found)
    }

    /// See [`MessageUpkeep::documents_sent_by`](kith_store::MessageUpkeep::documents_sent_by).
    pub(super) async fn find_documents_sent_by(
        &self,
        conversation: ConversationId,
        sender: UserId,
        from: Seq,
    ) -> Result<SentDocuments, StoreError> {
        let text = conversation.to_string();
        let (first, last) = (document_of(from.max(1)), Bson::MaxKey);
        let range = doc! { "$gte": { "c": &text, "d": first }, "$lte": { "c": &text, "d": last } };
        let is_theirs = doc! { "$and": [
            { "$eq": ["$$e.f", sender.get()] },
            { "$eq": ["$$e.y", i32::from(MessageKind::Message as u8)] },
            { "$ne": [{ "$type": "$$e.h" }, "missing"] },
        ] };
        let theirs = doc! { "$filter": { "input": "$m", "as": "e", "cond": is_theirs } };
        let find = self.messages.find(doc! { "_id": range }).sort(doc! { "_id": 1 });
        let find = find.projection(doc! { "n": { "$size": theirs } }).limit(count(SEARCHED_AT_ONCE + 1));
        let mut cursor = find.max_time(self.options.command).await.map_err(read_failed)?;
        let mut found = SentDocuments { firsts: Vec::new(), next: None };
        let mut looked_at = 0;
        while cursor.advance().await.map_err(read_failed)? {
            let first = document_in(cursor.current())? * DOCUMENT + 1;
            if looked_at == SEARCHED_AT_ONCE {
                found.next = Some(first);
                break;
            }
            looked_at += 1;
            let theirs = number_in(cursor.current(), "n")?.ok_or_else(|| malformed("n"))?;
            found.firsts.extend((theirs > 0).then_some(first));
        }
        Ok(found)
    }

    /// See [`MessageUpkeep::erase_document`](kith_store::MessageUpkeep::erase_document).
    pub(super) async fn erase_in_document(
        &self,
        conversation: ConversationId,
        first: Seq,
        sender: UserId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let theirs = element::content_of(sender, str::to_owned);
        let filter = doc! { "_id": id(conversation, document_of(first)), "m": { "$elemMatch": theirs } };
        let (update, filters) = element::erase_update(sender, now, rand::random());
        // Of the previous document: the number of changed messages.
        let erase = self.messages.find_one_and_update(filter, update).array_filters(filters);
        let erase = erase.projection(doc! { "m.f": 1, "m.y": 1, "m.h": 1 });
        let before = erase.max_time(self.options.command).await.map_err(write_failed)?;
        before.map_or(Ok(0), |before| contents_of(&before, sender))
    }

    async fn begun_between(
        &self,
        from: Timestamp,
        before: Timestamp,
        limit: i64,
    ) -> Result<Vec<AgedDocument>, StoreError> {
        let find = self.messages.find(doc! { "t0": { "$gte": from.0, "$lt": before.0 } });
        let find = find.sort(doc! { "t0": 1 }).projection(doc! { "t0": 1 }).limit(limit);
        let find = find.hint(Hint::Name("aged".to_owned())).max_time(self.options.command);
        let aged = |found: &RawDocument| {
            let first = document_in(found)? * DOCUMENT + 1;
            Ok(AgedDocument { begun: begun(found)?, conversation: conversation_in(found)?, first })
        };
        all(find.await.map_err(read_failed)?, aged).await
    }
}

/// The number of messages of a document with content of a sender.
fn contents_of(document: &RawDocument, sender: UserId) -> Result<u64, StoreError> {
    let mut count = 0;
    for element in document.get_array("m").map_err(|_| malformed("m"))? {
        let element = element.ok().and_then(|element| element.as_document()).ok_or_else(|| malformed("m"))?;
        count += u64::from(element::has_content_of(element, sender)?);
    }
    Ok(count)
}

fn begun(found: &RawDocument) -> Result<Timestamp, StoreError> {
    moment(found.get("t0").ok().flatten().ok_or_else(|| malformed("t0"))?, "t0")
}
