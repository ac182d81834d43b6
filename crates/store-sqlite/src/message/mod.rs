//! Each conversation's messages: a row per message, in the order of their numbers.

pub(crate) mod append;
pub(crate) mod change;
pub(crate) mod erase;
pub(crate) mod erasure;
mod header_tables;
mod packed;
pub(crate) mod page;
pub(crate) mod reaction;
pub(crate) mod upkeep;

use std::sync::Arc;

use async_trait::async_trait;
use kith_store::{
    Appended, BATCH_MAX, ConversationId, DOCUMENT, DocumentKey, HEADS_AT_ONCE, LogDocument, LogEnd, LogHead,
    Message, MessageChange, MessageChangeOutcome, MessageStore, NewMessage, Seq, StoreError, StoredHeader,
    Timestamp, at_most, document_of,
};
use rusqlite::{Connection, params};

use crate::{Sqlite, error::Failure, statement::first};
pub(crate) use header_tables::HeaderTables;

/// Primary key, its end.
pub(crate) const END: &str =
    "SELECT seq, sent_ms FROM messages WHERE conversation = ?1 ORDER BY seq DESC LIMIT 1";
/// Primary key, its beginning.
pub(crate) const BEGINNING: &str = "SELECT seq FROM messages WHERE conversation = ?1 ORDER BY seq LIMIT 1";
/// Index `message_documents_by_time`, its end.
pub(crate) const BEFORE: &str = "SELECT first FROM message_documents
    WHERE conversation = ?1 AND highest_ms < ?2 ORDER BY highest_ms DESC, first DESC LIMIT 1";
/// Uses the primary key.
pub(crate) const SENT_SINCE: &str = "SELECT seq FROM messages
    WHERE conversation = ?1 AND seq BETWEEN ?2 AND ?3 AND sent_ms >= ?4 ORDER BY seq LIMIT 1";
/// Uses the primary key.
pub(crate) const SENT: &str = "SELECT sent_ms FROM messages WHERE conversation = ?1 AND seq = ?2";

#[async_trait]
impl MessageStore for Sqlite {
    async fn append(
        &self,
        conversation: ConversationId,
        batch: &[NewMessage],
    ) -> Result<Vec<Appended>, StoreError> {
        if !append::fits(batch) {
            return Err(StoreError::Overloaded);
        }
        // Packed here: all other writes wait while the thread that writes is busy.
        let rows = batch.iter().map(append::NewRow::of).collect::<Result<Vec<_>, _>>()?;
        let log = conversation.to_string();
        let pending = self.header_tables.appending(conversation);
        let append = move |connection: &Connection| Ok((append::append(connection, &log, &rows)?, pending));
        self.writer.write(append).await.map(|(appended, _pending)| appended)
    }

    async fn messages(
        &self,
        conversation: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<Message>, StoreError> {
        if first < 1 || document_of(first) != document_of(last) {
            return Err(StoreError::Overloaded);
        }
        let log = conversation.to_string();
        self.readers.read(move |connection| page::read(connection, &log, first, last)).await
    }

    async fn document(&self, key: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
        self.readers.read(move |connection| page::document(connection, key)).await
    }

    async fn headers(
        &self,
        conversation: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<StoredHeader>, StoreError> {
        if first < 1 || document_of(first) != document_of(last) {
            return Err(StoreError::Overloaded);
        }
        let log = conversation.to_string();
        self.readers.read(move |connection| page::headers(connection, &log, first, last)).await
    }

    async fn heads(&self, asked: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
        at_most(asked.len(), HEADS_AT_ONCE)?;
        let tables = Arc::clone(&self.header_tables);
        let known: Vec<_> = asked.iter().map(|(log, above)| tables.head(*log, *above)).collect();
        let unknown = asked.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<_> = unknown.map(|(asked, _)| *asked).collect();
        if unknown.is_empty() {
            return Ok(known.into_iter().flatten().collect());
        }
        let heads = move |connection: &Connection| {
            let counts: Vec<_> = unknown.iter().map(|(log, _)| tables.counts(*log)).collect();
            // Reads one snapshot: between two statements outside a transaction another message may arrive.
            let reads = connection.unchecked_transaction()?;
            let unknown = unknown.iter().zip(counts);
            unknown
                .map(|((log, above), counts)| page::head(&reads, &tables, *log, *above, counts))
                .collect::<Result<Vec<_>, _>>()
        };
        let mut read = self.readers.read(heads).await?.into_iter();
        Ok(known.into_iter().filter_map(|head| head.or_else(|| read.next())).collect())
    }

    async fn last_documents(&self, conversation: ConversationId) -> Result<Vec<Message>, StoreError> {
        let log = conversation.to_string();
        self.readers.read(move |connection| last_documents(connection, &log)).await
    }

    async fn ends(&self, conversations: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
        at_most(conversations.len(), BATCH_MAX)?;
        let logs: Vec<String> = conversations.iter().map(ConversationId::to_string).collect();
        let ends = move |connection: &Connection| {
            // Locks the file once for all of them.
            let reads = connection.unchecked_transaction()?;
            logs.iter().map(|log| end(&reads, log)).collect()
        };
        self.readers.read(ends).await
    }

    /// One process writes and reads the file, so no read can be behind.
    async fn strong_end(&self, conversation: ConversationId) -> Result<Seq, StoreError> {
        let log = conversation.to_string();
        self.readers.read(move |connection| Ok(end(connection, &log)?.seq)).await
    }

    async fn seq_at(&self, conversation: ConversationId, time: Timestamp) -> Result<Seq, StoreError> {
        let log = conversation.to_string();
        self.readers.read(move |connection| seq_at(connection, &log, time)).await
    }

    async fn change(
        &self,
        conversation: ConversationId,
        change: &MessageChange,
    ) -> Result<MessageChangeOutcome, StoreError> {
        let (log, change) = (conversation.to_string(), change.clone());
        let event = append::NewRow::of(&change.event)?;
        let pending = self.header_tables.changing(conversation);
        let changed = self
            .writer
            .write(move |connection| Ok((change::change(connection, &log, &change, &event)?, pending)));
        changed.await.map(|(outcome, _pending)| outcome)
    }
}

/// Finds where a log ends.
pub(crate) fn end(connection: &Connection, log: &str) -> Result<LogEnd, Failure> {
    let found = first(connection, END, [log], |row| {
        Ok(LogEnd { seq: row.get(0)?, sent: Some(Timestamp(row.get(1)?)) })
    });
    Ok(found?.unwrap_or_default())
}

/// One statement reads the messages, so they show one moment. Messages that came after the end was read are
/// left out if they are in another document.
fn last_documents(connection: &Connection, log: &str) -> Result<Vec<Message>, Failure> {
    let end = end(connection, log)?.seq;
    if end == 0 {
        return Ok(Vec::new());
    }
    let last = (document_of(end) + 1) * DOCUMENT;
    page::read(connection, log, last - 2 * DOCUMENT + 1, last)
}

/// The first message that was sent at a time or later is in the last document up to whose first message all
/// are earlier, or is the first message in the next document.
fn seq_at(connection: &Connection, log: &str, time: Timestamp) -> Result<Seq, Failure> {
    let found = |row: &rusqlite::Row<'_>| Ok(row.get(0)?);
    let Some(from) = first(connection, BEFORE, params![log, time.0], found)? else {
        return Ok(first(connection, BEGINNING, [log], found)?.unwrap_or(1));
    };
    match first(connection, SENT_SINCE, params![log, from, from + DOCUMENT, time.0], found)? {
        Some(seq) => Ok(seq),
        None => Ok(end(connection, log)?.seq + 1),
    }
}
