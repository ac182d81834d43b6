//! Settings of conversations for all their users.

use std::collections::HashSet;

use async_trait::async_trait;
use kith_store::{BATCH_MAX, Conversation, ConversationId, ConversationStore, Seq, StoreError, Version};
use rusqlite::{Connection, params};

use crate::{
    Sqlite,
    error::{Failure, corrupt},
    row::size,
};

/// Primary key.
pub(crate) const BY_ID: &str = "SELECT version, min_seq, trim FROM conversations WHERE id = ?1";
/// Index `conversations_untrimmed`.
pub(crate) const UNTRIMMED: &str =
    "SELECT id, version, min_seq, trim FROM conversations INDEXED BY conversations_untrimmed
    WHERE trim AND id > ?1 ORDER BY id LIMIT ?2";
const PUT: &str = "INSERT OR REPLACE INTO conversations (id, version, min_seq, trim) VALUES (?1, ?2, ?3, ?4)";

#[async_trait]
impl ConversationStore for Sqlite {
    async fn conversations(&self, ids: &[ConversationId]) -> Result<Vec<Conversation>, StoreError> {
        if ids.len() > BATCH_MAX {
            return Err(StoreError::Overloaded);
        }
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
        self.readers.read(move |connection| untrimmed(connection, &after, limit)).await
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
    connection.prepare_cached(PUT)?.execute(row)?;
    Ok(())
}

fn untrimmed(connection: &Connection, after: &str, limit: usize) -> Result<Vec<Conversation>, Failure> {
    let mut read = connection.prepare_cached(UNTRIMMED)?;
    let mut rows = read.query(params![after, size(limit)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let id = id.parse().map_err(|_| corrupt("conversations.id"))?;
        let version = Version::new(row.get(1)?).ok_or_else(|| corrupt("conversations.version"))?;
        found.push(Conversation { id, version, min_seq: row.get(2)?, trim: row.get(3)? });
    }
    Ok(found)
}

fn read(connection: &Connection, id: ConversationId) -> Result<Option<Conversation>, Failure> {
    let mut read = connection.prepare_cached(BY_ID)?;
    let mut rows = read.query([id.to_string()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let version = Version::new(row.get(0)?).ok_or_else(|| corrupt("conversations.version"))?;
    Ok(Some(Conversation { id, version, min_seq: row.get(1)?, trim: row.get(2)? }))
}
