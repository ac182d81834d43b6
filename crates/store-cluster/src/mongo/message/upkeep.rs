//! Removes documents, and message contents.

use std::ops::Range;

use kith_store::{
    AgedDocument, CompletedTimes, ConversationId, DOCUMENT, DOCUMENTS_READ, DocumentKey, MessageKind,
    SEARCHED_AT_ONCE, SentDocuments, Seq, StoreError, Timestamp, TrimResult, UserId, document_of,
    removable_documents,
};
use mongodb::{
    ClientSession,
    bson::{Bson, Document, RawDocument, doc},
    options::Hint,
};

use super::{
    super::{
        database::Mongo,
        document::{count, moment, number_in},
        error::{malformed, read_failed, write_failed},
        record::all,
        transaction::before_commit,
        write::{Failure, Retries},
    },
    documents::{conversation_in, document_in, documents_of, id, size_and_time, summary_in, times_up_to},
    element,
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
        let mut removed = 0;
        for (document, _) in documents.iter().take(removable) {
            let key = DocumentKey { conversation, document: *document };
            let mut retries = Retries::within(self.options.append);
            removed += loop {
                match Box::pin(self.remove_document(key)).await {
                    Ok(removed) => break removed,
                    Err(failure) => retries.after(failure).await?,
                }
            };
        }
        // All but the last are full, and a document that was followed by another is not the last.
        Ok(TrimResult { messages: removed.saturating_mul(DOCUMENT.unsigned_abs()), left })
    }

    /// Removes a document with the reactions to its messages. Returns how many there were: 0 or 1.
    async fn remove_document(&self, key: DocumentKey) -> Result<u64, Failure> {
        let mut session = self.begin_transaction().await?;
        let made = self.removal_steps(key, &mut session).await;
        self.end_transaction(session, made).await
    }

    async fn removal_steps(&self, key: DocumentKey, session: &mut ClientSession) -> Result<u64, Failure> {
        self.remove_reactions(key, session).await?;
        let remove = self.messages.delete_one(doc! { "_id": id(key.conversation, key.document) });
        remove.session(session).await.map(|removed| removed.deleted_count).map_err(before_commit)
    }

    /// The oldest documents' numbers, and when they were begun: not before they were made, since imported
    /// messages may have been sent years before.
    async fn oldest_documents(
        &self,
        conversation: ConversationId,
    ) -> Result<Vec<(i64, Timestamp)>, StoreError> {
        let find = self.messages.find(documents_of(conversation)).sort(doc! { "_id": 1 });
        let find = find.projection(doc! { "t0": 1, "made": 1 }).limit(count(DOCUMENTS_READ));
        let cursor = find.max_time(self.options.command).await.map_err(read_failed)?;
        let begun = |found: &RawDocument| {
            let made = number_in(found, "made")?.map_or(Timestamp(i64::MIN), Timestamp);
            Ok((document_in(found)?, begun(found)?.max(made)))
        };
        all(cursor, begun).await
    }

    /// See [`MessageUpkeep::aged`](kith_store::MessageUpkeep::aged).
    pub(super) async fn aged_documents(
        &self,
        highest: Range<Timestamp>,
        limit: usize,
    ) -> Result<Vec<AgedDocument>, StoreError> {
        let Range { start, end } = highest;
        let find = self.messages.find(doc! { "age": { "$gte": start.0, "$lt": end.0 } });
        let find = find.sort(doc! { "age": 1 }).projection(doc! { "age": 1 }).limit(count(limit));
        let find = find.hint(Hint::Name("aging".to_owned())).max_time(self.options.command);
        let aged = |found: &RawDocument| {
            let highest = Timestamp(number_in(found, "age")?.ok_or_else(|| malformed("age"))?);
            let first = document_in(found)? * DOCUMENT + 1;
            Ok(AgedDocument { highest, conversation: conversation_in(found)?, first })
        };
        all(find.await.map_err(read_failed)?, aged).await
    }

    /// See [`MessageUpkeep::settle_aged`](kith_store::MessageUpkeep::settle_aged).
    pub(super) async fn settle_aged_documents(&self, documents: &[AgedDocument]) -> Result<(), StoreError> {
        let ids = documents.iter().map(|aged| id(aged.conversation, document_of(aged.first)));
        let filter = doc! { "_id": { "$in": ids.collect::<Vec<_>>() } };
        let settle = self.messages.update_many(filter, doc! { "$unset": { "age": "" } });
        settle.await.map(drop).map_err(write_failed)
    }

    /// See [`MessageUpkeep::complete_times`](kith_store::MessageUpkeep::complete_times). The document at
    /// `from` is examined again: its messages precede those in the next document.
    pub(super) async fn complete_document_times(
        &self,
        from: Option<DocumentKey>,
        limit: usize,
    ) -> Result<CompletedTimes, StoreError> {
        let from =
            from.map_or_else(Document::new, |from| doc! { "$gte": id(from.conversation, from.document) });
        let filter = if from.is_empty() {
            Document::new()
        } else {
            doc! { "_id": from }
        };
        let mut projection = size_and_time();
        projection.insert("t0", 1);
        let find = self.messages.find(filter).sort(doc! { "_id": 1 }).projection(projection);
        let find = find.limit(count(limit.max(2))).max_time(self.options.command);
        let found = |found: &RawDocument| {
            let (conversation, summary) = (conversation_in(found)?, summary_in(found)?);
            let times = [number_in(found, "tm")?, number_in(found, "hi")?];
            Ok(TimesOfDocument {
                key: DocumentKey { conversation, document: summary.document },
                begun: begun(found)?,
                latest: times[0].map(Timestamp),
                highest: times[1].map(Timestamp),
            })
        };
        let found: Vec<TimesOfDocument> = all(find.await.map_err(read_failed)?, found).await?;
        let last = found.last().map(|last| last.key).filter(|_| found.len() >= limit.max(2));
        let mut completed = 0;
        for (key, highest) in missing_times(&found) {
            let filter = doc! { "_id": id(key.conversation, key.document), "hi": { "$exists": false } };
            let update = doc! { "$set": times_up_to(highest) };
            let updated = self.messages.update_one(filter, update).await.map_err(write_failed)?;
            completed += updated.modified_count;
        }
        Ok(CompletedTimes { completed, next: last })
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
        let key = DocumentKey { conversation, document: document_of(first) };
        let mut retries = Retries::within(self.options.append);
        loop {
            match Box::pin(self.try_erase(key, sender, now)).await {
                Ok(erased) => return Ok(erased),
                Err(failure) => retries.after(failure).await?,
            }
        }
    }

    async fn try_erase(&self, key: DocumentKey, sender: UserId, now: Timestamp) -> Result<u64, Failure> {
        let mut session = self.begin_transaction().await?;
        let made = self.erase_steps(key, sender, now, &mut session).await;
        self.end_transaction(session, made).await
    }

    async fn erase_steps(
        &self,
        key: DocumentKey,
        sender: UserId,
        now: Timestamp,
        session: &mut ClientSession,
    ) -> Result<u64, Failure> {
        let theirs = element::content_of(sender, str::to_owned);
        let filter = doc! { "_id": id(key.conversation, key.document), "m": { "$elemMatch": theirs } };
        let (update, filters) = element::erase_update(sender, now, rand::random());
        // Returns the previous document: the changed messages.
        let erase = self.messages.find_one_and_update(filter, update).array_filters(filters);
        let erase = erase.projection(doc! { "m.f": 1, "m.y": 1, "m.h": 1 }).max_time(self.options.command);
        let Some(before) = erase.session(&mut *session).await.map_err(before_commit)? else { return Ok(0) };
        let erased = contents_of(&before, key, sender).map_err(Failure::Final)?;
        self.end_reactions(key, &erased, session).await?;
        Ok(erased.len().try_into().unwrap_or(u64::MAX))
    }
}

/// The times in a document that is examined.
#[derive(Clone, Copy, Debug)]
struct TimesOfDocument {
    key: DocumentKey,
    /// The first message's time.
    begun: Timestamp,
    /// The latest time among its messages.
    latest: Option<Timestamp>,
    /// The highest time up to its first message, if it has any.
    highest: Option<Timestamp>,
}

/// The highest times for the documents that lack them, from documents by rising key. Others may precede the
/// first document only if it has its time.
fn missing_times(documents: &[TimesOfDocument]) -> Vec<(DocumentKey, Timestamp)> {
    let mut before: Option<(ConversationId, Timestamp)> = None;
    let mut missing = Vec::new();
    for document in documents {
        let of_log = before.filter(|(log, _)| *log == document.key.conversation);
        let highest = document.highest.unwrap_or_else(|| {
            let highest = of_log.map_or(document.begun, |(_, before)| before.max(document.begun));
            missing.push((document.key, highest));
            highest
        });
        let up_to_last = document.latest.map_or(highest, |latest| latest.max(highest));
        before = Some((document.key.conversation, up_to_last));
    }
    missing
}

/// The numbers of the messages in a document that have a sender's content.
fn contents_of(document: &RawDocument, key: DocumentKey, sender: UserId) -> Result<Vec<Seq>, StoreError> {
    let mut seqs = Vec::new();
    for (seq, element) in (key.first()..).zip(element::elements_in(document)?) {
        seqs.extend(element::has_content_of(element?, sender)?.then_some(seq));
    }
    Ok(seqs)
}

fn begun(found: &RawDocument) -> Result<Timestamp, StoreError> {
    moment(found.get("t0").ok().flatten().ok_or_else(|| malformed("t0"))?, "t0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(log: &str, document: i64, times: (i64, i64), highest: Option<i64>) -> TimesOfDocument {
        TimesOfDocument {
            key: DocumentKey { conversation: log.parse().unwrap(), document },
            begun: Timestamp(times.0),
            latest: Some(Timestamp(times.1)),
            highest: highest.map(Timestamp),
        }
    }

    fn missing(documents: &[TimesOfDocument]) -> Vec<(String, i64)> {
        missing_times(documents).into_iter().map(|(key, highest)| (key.to_string(), highest.0)).collect()
    }

    #[test]
    fn missing_times_never_fall_within_a_log() {
        let documents = [
            document("g8", 0, (5, 9), None),
            document("g8", 1, (3, 4), None),
            document("g8", 2, (7, 20), None),
            document("g8", 3, (1, 2), None),
            document("g9", 0, (2, 2), None),
        ];
        let expected = [("g8/0", 5), ("g8/1", 9), ("g8/2", 9), ("g8/3", 20), ("g9/0", 2)];
        assert_eq!(missing(&documents), expected.map(|(key, time)| (key.to_owned(), time)));
    }

    #[test]
    fn known_times_are_kept_and_continued() {
        let documents = [document("g8", 4, (5, 6), Some(30)), document("g8", 5, (7, 8), None)];
        assert_eq!(missing(&documents), [("g8/5".to_owned(), 30)]);
    }
}
