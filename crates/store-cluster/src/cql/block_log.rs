//! What is told of changes of permissions. It is kept for a day beside the record, by the write that changes it, so that whoever
//! resumes a change of a node that died knows what both logs are to have.

use kith_store::{Block, Edge, RelationDeed, RelationEvent, RelationEventId, StoreError, Timestamp, Version};

use super::{
    relation_log::event_body,
    session::{Bound, Cql, Statement, Values, values},
};

/// It has no condition of its own, but that of the record.
const KEEP: Statement = Statement::conditional(
    "INSERT INTO %k.blocks (owner, kind, placed, other, reply) VALUES (?, 4, ?, ?, ?) USING TTL 86400",
);
const KEPT: Statement =
    Statement::read("SELECT reply FROM %k.blocks WHERE owner = ? AND kind = 4 AND placed = ? LIMIT ?");
const KEPT_OF: Statement =
    Statement::read("SELECT reply FROM %k.blocks WHERE owner = ? AND kind = 4 AND placed = ? AND other = ?");
/// Most that is looked at, the newest first: as much as is changed of one record before somebody looks, and more.
const LOOKED_AT: i32 = 100;

/// What is told of a change; `None`: permissions stay as they are.
pub(super) fn told(before: &Block, after: &Block, now: Timestamp) -> Option<RelationEvent> {
    let deed = RelationDeed::SetPermissions { before: before.permissions, after: after.permissions };
    let id = RelationEventId::at(now, rand::random());
    (before.permissions != after.permissions).then_some(RelationEvent { id, edge: after.edge, deed })
}

/// Keeps what is told of the change that made this version.
pub(super) fn kept_part(version: Version, event: &RelationEvent) -> Result<Bound, StoreError> {
    let Edge { from, to } = event.edge;
    Ok(Bound(&KEEP, values![from.get(), to.get(), version.get(), event_body(event)?]))
}

impl Cql {
    /// Writes what was kept of a record into the logs, once more or because nobody has.
    pub(super) async fn resume_log(&self, edge: Edge) -> Result<(), StoreError> {
        self.write_kept(&KEPT, values![edge.from.get(), edge.to.get(), LOOKED_AT]).await
    }

    /// Writes what was kept of the change that made this record so into the logs once more, if it told anything.
    pub(super) async fn resume_event(&self, block: &Block) -> Result<(), StoreError> {
        let Edge { from, to } = block.edge;
        self.write_kept(&KEPT_OF, values![from.get(), to.get(), block.version.get()]).await
    }

    async fn write_kept(&self, kept: &'static Statement, values: Values) -> Result<(), StoreError> {
        for row in self.records(kept, values).await? {
            let event: RelationEvent = row.json("reply")?;
            self.write_event(&event).await?;
        }
        Ok(())
    }
}
