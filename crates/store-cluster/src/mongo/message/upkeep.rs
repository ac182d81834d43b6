//! Removal of documents.

use kith_store::{
    AgedDocument, ConversationId, DOCUMENT, DOCUMENTS_READ, Seq, StoreError, Timestamp, Trimmed,
    removable_documents,
};
use mongodb::{
    bson::{RawDocument, doc},
    options::Hint,
};

use super::{
    super::{
        connect::Mongo,
        document::{count, moment},
        error::{malformed, read_failed, write_failed},
    },
    documents::{document_in, documents_of, id},
    ends::conversation_in,
};

impl Mongo {
    /// See [`MessageUpkeep::trim`](kith_store::MessageUpkeep::trim).
    pub(super) async fn trim_log(
        &self,
        conversation: ConversationId,
        below: Seq,
        now: Timestamp,
    ) -> Result<Trimmed, StoreError> {
        let documents = self.oldest_documents(conversation).await?;
        let (removable, left) = removable_documents(&documents, below, now);
        if removable == 0 {
            return Ok(Trimmed { messages: 0, left });
        }
        let ids = documents.iter().take(removable).map(|(document, _)| id(conversation, *document));
        let filter = doc! { "_id": { "$in": ids.collect::<Vec<_>>() } };
        let removed = self.messages.delete_many(filter).await.map_err(write_failed)?;
        // All but the last one are full, and no document is the last one that was followed by another.
        Ok(Trimmed { messages: removed.deleted_count.saturating_mul(DOCUMENT.unsigned_abs()), left })
    }

    /// The numbers of the oldest documents, and when they were begun.
    async fn oldest_documents(
        &self,
        conversation: ConversationId,
    ) -> Result<Vec<(i64, Timestamp)>, StoreError> {
        let find = self.messages.find(documents_of(conversation)).sort(doc! { "_id": 1 });
        let find = find.projection(doc! { "t0": 1 }).limit(count(DOCUMENTS_READ));
        let mut cursor = find.max_time(self.options.command).await.map_err(read_failed)?;
        let mut documents = Vec::with_capacity(DOCUMENTS_READ);
        while cursor.advance().await.map_err(read_failed)? {
            documents.push((document_in(cursor.current())?, begun(cursor.current())?));
        }
        Ok(documents)
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

    async fn begun_between(
        &self,
        from: Timestamp,
        before: Timestamp,
        limit: i64,
    ) -> Result<Vec<AgedDocument>, StoreError> {
        let find = self.messages.find(doc! { "t0": { "$gte": from.0, "$lt": before.0 } });
        let find = find.sort(doc! { "t0": 1 }).projection(doc! { "t0": 1 }).limit(limit);
        let find = find.hint(Hint::Name("aged".to_owned())).max_time(self.options.command);
        let mut cursor = find.await.map_err(read_failed)?;
        let mut found = Vec::new();
        while cursor.advance().await.map_err(read_failed)? {
            let current = cursor.current();
            let first = document_in(current)? * DOCUMENT + 1;
            found.push(AgedDocument {
                begun: begun(current)?,
                conversation: conversation_in(current)?,
                first,
            });
        }
        Ok(found)
    }
}

fn begun(found: &RawDocument) -> Result<Timestamp, StoreError> {
    moment(found.get("t0").ok().flatten().ok_or_else(|| malformed("t0"))?, "t0")
}
