//! Removal of messages, and of their contents. One transaction removes whole documents from the beginning of a log.

use async_trait::async_trait;
use kith_store::{
    AgedDocument, ConversationId, DOCUMENT, DOCUMENTS_READ, MessageUpkeep, SentDocuments, Seq, StoreError,
    Timestamp, TrimResult, UserId, document_of, removable_documents,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{BEGINNING, SENT, erase};
use crate::{
    Sqlite,
    error::{Failure, corrupt},
    row::size,
    statement::{all, first},
};

/// Primary key, its beginning.
pub(crate) const REMOVE: &str = "DELETE FROM messages WHERE conversation = ?1 AND seq < ?2";
/// Index `messages_aged`.
pub(crate) const AGED: &str = "SELECT sent_ms, conversation, seq FROM messages
    WHERE seq % 100 = 1 AND sent_ms >= ?1 AND sent_ms < ?2 ORDER BY sent_ms LIMIT ?3";

const _: () = assert!(DOCUMENT == 100);

#[async_trait]
impl MessageUpkeep for Sqlite {
    async fn trim(
        &self,
        conversation: ConversationId,
        below: Seq,
        now: Timestamp,
    ) -> Result<TrimResult, StoreError> {
        let log = conversation.to_string();
        self.writer.write(move |connection| trim(connection, &log, below, now)).await
    }

    async fn aged(
        &self,
        from: Timestamp,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<AgedDocument>, StoreError> {
        self.readers.read(move |connection| aged(connection, from, before, limit)).await
    }

    async fn documents_sent_by(
        &self,
        conversation: ConversationId,
        sender: UserId,
        from: Seq,
    ) -> Result<SentDocuments, StoreError> {
        let log = conversation.to_string();
        self.readers.read(move |connection| erase::documents(connection, &log, sender, from)).await
    }

    async fn erase_document(
        &self,
        conversation: ConversationId,
        first: Seq,
        sender: UserId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let log = conversation.to_string();
        self.writer.write(move |connection| erase::erase(connection, &log, first, sender, now)).await
    }
}

fn trim(connection: &Connection, log: &str, below: Seq, now: Timestamp) -> Result<TrimResult, Failure> {
    let documents = oldest_documents(connection, log)?;
    let (count, left) = removable_documents(&documents, below, now);
    let removed = match documents.get(count) {
        Some((next, _)) if count > 0 => {
            connection.prepare_cached(REMOVE)?.execute(params![log, next * DOCUMENT + 1])?
        }
        _ => 0,
    };
    Ok(TrimResult { messages: u64::try_from(removed).unwrap_or(u64::MAX), left })
}

/// The numbers of the oldest documents, and when they were begun.
fn oldest_documents(connection: &Connection, log: &str) -> Result<Vec<(i64, Timestamp)>, Failure> {
    let first: Option<Seq> = first(connection, BEGINNING, [log], |row| Ok(row.get(0)?))?;
    let Some(first) = first else { return Ok(Vec::new()) };
    let mut sent = connection.prepare_cached(SENT)?;
    let mut documents = Vec::with_capacity(DOCUMENTS_READ);
    for document in (document_of(first)..).take(DOCUMENTS_READ) {
        let begun = sent.query_row(params![log, document * DOCUMENT + 1], |row| row.get(0)).optional()?;
        let Some(begun) = begun else { break };
        documents.push((document, Timestamp(begun)));
    }
    Ok(documents)
}

fn aged(
    connection: &Connection,
    from: Timestamp,
    before: Timestamp,
    limit: usize,
) -> Result<Vec<AgedDocument>, Failure> {
    let mut found = begun_between(connection, from, before, size(limit))?;
    // Those of the last millisecond that did not fit.
    if let Some(last) = found.last().filter(|_| found.len() >= limit).map(|last| last.begun) {
        found.retain(|one| one.begun < last);
        found.extend(begun_between(connection, last, Timestamp(last.0 + 1), i64::MAX)?);
    }
    Ok(found)
}

fn begun_between(
    connection: &Connection,
    from: Timestamp,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<AgedDocument>, Failure> {
    all(connection, AGED, [from.0, before.0, limit], |row| {
        let conversation: String = row.get(1)?;
        let conversation =
            ConversationId::stored(&conversation).map_err(|_| corrupt("messages.conversation"))?;
        Ok(AgedDocument { begun: Timestamp(row.get(0)?), conversation, first: row.get(2)? })
    })
}
