//! Removes messages, and message contents. One transaction removes whole documents from the beginning of a
//! log.

use std::ops::Range;

use async_trait::async_trait;
use kith_store::{
    AgedDocument, CompletedTimes, ConversationId, DOCUMENT, DOCUMENTS_READ, DocumentKey, MessageUpkeep,
    SentDocuments, Seq, StoreError, Timestamp, TrimResult, UserId, document_of, removable_documents,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{BEGINNING, SENT, erase, reaction};
use crate::{
    Sqlite,
    error::{Failure, corrupt},
    row::size,
    statement::{all, first, run},
};

/// Primary key, its beginning.
pub(crate) const REMOVE: &str = "DELETE FROM messages WHERE conversation = ?1 AND seq < ?2";
/// Primary key, its beginning.
pub(crate) const REMOVE_DOCUMENTS: &str =
    "DELETE FROM message_documents WHERE conversation = ?1 AND first < ?2";
/// Index `message_documents_aging`.
pub(crate) const AGED: &str = "SELECT highest_ms, conversation, first FROM message_documents
    WHERE settled = 0 AND highest_ms >= ?1 AND highest_ms < ?2 ORDER BY highest_ms LIMIT ?3";
/// Uses the primary key.
pub(crate) const SETTLE: &str =
    "UPDATE message_documents SET settled = 1 WHERE conversation = ?1 AND first = ?2";

#[async_trait]
impl MessageUpkeep for Sqlite {
    async fn trim(
        &self,
        conversation: ConversationId,
        below: Seq,
        now: Timestamp,
    ) -> Result<TrimResult, StoreError> {
        let log = conversation.to_string();
        let pending = self.header_tables.changing(conversation);
        let trimmed = self.writer.write(move |connection| Ok((trim(connection, &log, below, now)?, pending)));
        trimmed.await.map(|(result, _pending)| result)
    }

    async fn aged(&self, highest: Range<Timestamp>, limit: usize) -> Result<Vec<AgedDocument>, StoreError> {
        self.readers.read(move |connection| aged(connection, &highest, limit)).await
    }

    async fn settle_aged(&self, documents: &[AgedDocument]) -> Result<(), StoreError> {
        let settled: Vec<(String, Seq)> =
            documents.iter().map(|aged| (aged.conversation.to_string(), aged.first)).collect();
        let settle = move |connection: &Connection| {
            settled.iter().try_for_each(|(log, first)| run(connection, SETTLE, params![log, first]))
        };
        self.writer.write(settle).await
    }

    /// The migration has completed them.
    async fn complete_times(
        &self,
        _from: Option<DocumentKey>,
        _limit: usize,
    ) -> Result<CompletedTimes, StoreError> {
        Ok(CompletedTimes::default())
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
        let pending = self.header_tables.changing(conversation);
        let erased = self
            .writer
            .write(move |connection| Ok((erase::erase(connection, &log, first, sender, now)?, pending)));
        erased.await.map(|(count, _pending)| count)
    }
}

fn trim(connection: &Connection, log: &str, below: Seq, now: Timestamp) -> Result<TrimResult, Failure> {
    let documents = oldest_documents(connection, log)?;
    let (count, left) = removable_documents(&documents, below, now);
    let removed = match documents.get(count) {
        Some((next, _)) if count > 0 => {
            let first = next * DOCUMENT + 1;
            reaction::trim(connection, log, *next)?;
            run(connection, REMOVE_DOCUMENTS, params![log, first])?;
            connection.prepare_cached(REMOVE)?.execute(params![log, first])?
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
    highest: &Range<Timestamp>,
    limit: usize,
) -> Result<Vec<AgedDocument>, Failure> {
    all(connection, AGED, [highest.start.0, highest.end.0, size(limit)], |row| {
        let conversation: String = row.get(1)?;
        let conversation =
            ConversationId::stored(&conversation).map_err(|_| corrupt("message_documents.conversation"))?;
        Ok(AgedDocument { highest: Timestamp(row.get(0)?), conversation, first: row.get(2)? })
    })
}
