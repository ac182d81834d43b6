//! Conversation settings for all their users.

use std::collections::HashSet;

use async_trait::async_trait;
use kith_store::{
    BATCH_MAX, Conversation, ConversationId, ConversationStore, Seq, StoreError, Version, at_most,
};
use rusqlite::{Connection, Row, params};

use crate::{
    Sqlite,
    error::{Failure, corrupt},
    row::{size, version},
    statement::{first, run},
};

/// Uses the primary key.
pub(crate) const BY_ID: &str = "SELECT version, min_seq, trim FROM conversations WHERE id = ?1";
/// Index `conversations_untrimmed`.
pub(crate) const UNTRIMMED: &str =
    "SELECT id, version, min_seq, trim FROM conversations INDEXED BY conversations_untrimmed
    WHERE trim AND id > ?1 ORDER BY id LIMIT ?2";
const PUT: &str = "INSERT OR REPLACE INTO conversations (id, version, min_seq, trim) VALUES (?1, ?2, ?3, ?4)";

#[async_trait]
impl ConversationStore for Sqlite {
    async fn conversations(&self, ids: &[ConversationId]) -> Result<Vec<Conversation>, StoreError> {
        at_most(ids.len(), BATCH_MAX)?;
        let ids: HashSet<ConversationId> = ids.iter().copied().collect();
        let read = move |connection: &Connection| {
            ids.into_iter().filter_map(|id| read(connection, id).transpose()).collect()
        };
        self.readers.read(read).await
    }

    async fn strong_conversations(&self, ids: &[ConversationId]) -> Result<Vec<Conversation>, StoreError> {
        self.conversations(ids).await
    }

    async fn raise_min_seq(
        &self,
        id: ConversationId,
        min_seq: Seq,
        trim: bool,
    ) -> Result<Conversation, StoreError> {
        let raise = move |connection: &Connection| {
            let record = read(connection, id)?.unwrap_or(Conversation::absent(id));
            let Some(raised) = record.raised(min_seq, trim) else { return Ok(record) };
            put(connection, &raised)?;
            Ok(raised)
        };
        self.writer.write(raise).await
    }

    async fn untrimmed_conversations(
        &self,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<Conversation>, StoreError> {
        let after = after.map(|id| id.to_string()).unwrap_or_default();
        let untrimmed = |row: &Row<'_>| {
            let id: String = row.get(0)?;
            conversation(id.parse().map_err(|_| corrupt("conversations.id"))?, row, 1)
        };
        self.readers.all(UNTRIMMED, (after, size(limit)), untrimmed).await
    }

    async fn end_trim(
        &self,
        id: ConversationId,
        version: Version,
    ) -> Result<Option<Conversation>, StoreError> {
        let end = move |connection: &Connection| {
            let record = read(connection, id)?.filter(|record| record.trim && record.version == version);
            let Some(record) = record else { return Ok(None) };
            let ended = Conversation { version: version.next(), trim: false, ..record };
            put(connection, &ended)?;
            Ok(Some(ended))
        };
        self.writer.write(end).await
    }
}

fn put(connection: &Connection, record: &Conversation) -> Result<(), Failure> {
    let row = params![record.id.to_string(), record.version.get(), record.min_seq, record.trim];
    run(connection, PUT, row)
}

fn read(connection: &Connection, id: ConversationId) -> Result<Option<Conversation>, Failure> {
    first(connection, BY_ID, [id.to_string()], |row| conversation(id, row, 0))
}

/// Reads a record whose columns begin here.
fn conversation(id: ConversationId, row: &Row<'_>, at: usize) -> Result<Conversation, Failure> {
    Ok(Conversation { id, version: version(row, at)?, min_seq: row.get(at + 1)?, trim: row.get(at + 2)? })
}
