//! What is set for all users of a conversation.

use std::collections::HashSet;

use async_trait::async_trait;
use kith_store::{BATCH_MAX, Conversation, ConversationId, ConversationStore, Seq, StoreError, Version};
use rusqlite::{Connection, params};

use crate::{
    Sqlite,
    error::{Failure, corrupt},
};

/// Primary key.
pub(crate) const BY_ID: &str = "SELECT version, min_seq, trim FROM conversations WHERE id = ?1";
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
            let row = params![id.to_string(), raised.version.get(), raised.min_seq, raised.trim];
            connection.prepare_cached(PUT)?.execute(row)?;
            Ok(raised)
        };
        self.writer.write(raise).await
    }
}

fn read(connection: &Connection, id: ConversationId) -> Result<Option<Conversation>, Failure> {
    let mut read = connection.prepare_cached(BY_ID)?;
    let mut rows = read.query([id.to_string()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let version = Version::new(row.get(0)?).ok_or_else(|| corrupt("conversations.version"))?;
    Ok(Some(Conversation { id, version, min_seq: row.get(1)?, trim: row.get(2)? }))
}
