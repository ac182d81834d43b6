//! Erases all messages that a user sent.

use async_trait::async_trait;
use kith_store::{Erasure, ErasureStore, StoreError, Timestamp, UserId};
use rusqlite::{Connection, Row, params};

use crate::{
    Sqlite,
    error::{Failure, corrupt, internal},
    row::size,
    statement::{first, run},
};

/// Uses the primary key.
pub(crate) const BY_USER: &str = "SELECT state FROM erasures WHERE user_id = ?1";
/// Index `erasures_unfinished`.
pub(crate) const UNFINISHED: &str = "SELECT state FROM erasures INDEXED BY erasures_unfinished
    WHERE NOT ended AND user_id > ?1 ORDER BY user_id LIMIT ?2";
const PUT: &str = "INSERT OR REPLACE INTO erasures (user_id, ended, state) VALUES (?1, ?2, ?3)";

#[async_trait]
impl ErasureStore for Sqlite {
    async fn begin_erasure(&self, user: UserId, again: bool, now: Timestamp) -> Result<Erasure, StoreError> {
        let begin = move |connection: &Connection| {
            let before = read(connection, user)?;
            if let Some(before) = before.filter(|before| !(before.ended && again)) {
                return Ok(before);
            }
            let begun = Erasure::first(user, before.as_ref(), now);
            put(connection, &begun)?;
            Ok(begun)
        };
        self.writer.write(begin).await
    }

    async fn unfinished_erasures(
        &self,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<Erasure>, StoreError> {
        self.readers.all(UNFINISHED, [after.map_or(0, UserId::get), size(limit)], erasure).await
    }

    async fn save_erasure(&self, erasure: &Erasure) -> Result<Option<Erasure>, StoreError> {
        let erasure = *erasure;
        let save = move |connection: &Connection| {
            let stored = read(connection, erasure.user)?;
            if stored.is_none_or(|stored| stored.version != erasure.version) {
                return Ok(None);
            }
            let saved = Erasure { version: erasure.version.next(), ..erasure };
            put(connection, &saved)?;
            Ok(Some(saved))
        };
        self.writer.write(save).await
    }
}

fn read(connection: &Connection, user: UserId) -> Result<Option<Erasure>, Failure> {
    first(connection, BY_USER, [user.get()], erasure)
}

fn erasure(row: &Row<'_>) -> Result<Erasure, Failure> {
    let state = row.get_ref(0)?.as_blob().map_err(|_| corrupt("erasures.state"))?;
    Ok(serde_json::from_slice(state).map_err(|_| corrupt("erasures.state"))?)
}

fn put(connection: &Connection, erasure: &Erasure) -> Result<(), Failure> {
    let state = serde_json::to_vec(erasure).map_err(|_| internal("an erasure cannot be written down"))?;
    run(connection, PUT, params![erasure.user.get(), erasure.ended, state])
}
