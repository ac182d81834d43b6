//! The users' relation logs, written in the transaction that makes the change.

use async_trait::async_trait;
use kith_store::{
    Edge, RelationEvent, RelationEventId, RelationEventKind, RelationLog, StoreError, Timestamp, UserId,
};
use rusqlite::{Connection, params};

use crate::{
    Sqlite,
    error::{Failure, corrupt, internal},
    row::{json, size},
};

/// Uses the primary key.
pub(crate) const LIST: &str =
    "SELECT body FROM relation_log WHERE owner = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
/// Primary key, its ends.
pub(crate) const LAST: &str = "SELECT MAX(
    (SELECT IFNULL(MAX(id), 0) FROM relation_log WHERE owner = ?1),
    (SELECT IFNULL(MAX(id), 0) FROM relation_log WHERE owner = ?2))";
const NOTE: &str = "INSERT INTO relation_log (owner, id, body) VALUES (?1, ?2, ?3)";
/// Index `relation_log_id`, then the primary key.
pub(crate) const FORGET: &str = "DELETE FROM relation_log WHERE (owner, id) IN
    (SELECT owner, id FROM relation_log INDEXED BY relation_log_id WHERE id < ?1 ORDER BY id LIMIT ?2)";

#[async_trait]
impl RelationLog for Sqlite {
    async fn relation_log(
        &self,
        user: UserId,
        after: RelationEventId,
        limit: usize,
    ) -> Result<Vec<RelationEvent>, StoreError> {
        let values = [user.get(), after.get(), size(limit)];
        self.readers.all(LIST, values, |row| json(row, 0, "relation_log.body")).await
    }

    async fn forget_relation_log(&self, before: Timestamp, limit: usize) -> Result<u64, StoreError> {
        let first = RelationEventId::at(before, 0).get();
        let forget = move |connection: &Connection| {
            let forgotten = connection.prepare_cached(FORGET)?.execute([first, size(limit)])?;
            Ok(u64::try_from(forgotten).unwrap_or(u64::MAX))
        };
        self.writer.write(forget).await
    }
}

/// Adds an event for `edge.from` and `edge.to` to both logs, with an id above all existing ids.
pub(crate) fn note(
    connection: &Connection,
    edge: Edge,
    kind: RelationEventKind,
    now: Timestamp,
) -> Result<(), Failure> {
    let both = [edge.from.get(), edge.to.get()];
    let last: i64 = connection.prepare_cached(LAST)?.query_row(both, |row| row.get(0))?;
    let above = RelationEventId::new(last.saturating_add(1)).map_err(|_| corrupt("relation_log.id"))?;
    let event = RelationEvent { id: RelationEventId::at(now, 0).max(above), edge, kind };
    let body = serde_json::to_string(&event).map_err(|_| internal("an event cannot be written down"))?;
    let mut note = connection.prepare_cached(NOTE)?;
    for owner in event.owners() {
        note.execute(params![owner.get(), event.id.get(), body])?;
    }
    Ok(())
}
