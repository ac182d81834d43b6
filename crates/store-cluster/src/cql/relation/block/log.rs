//! Events for permission changes. An event is kept for a day next to the record, by the write that changes
//! it, so that a node that resumes a dead node's change knows the event for both logs.

use kith_store::{
    Block, Edge, RelationEvent, RelationEventId, RelationEventKind, StoreError, Timestamp, Version,
};

use crate::cql::{
    client::session::{Bound, Statement, Values, values},
    relation::log::event_body,
    stores::Cql,
};

/// It is written under the record's condition.
const KEEP: Statement = Statement::conditional(
    "INSERT INTO %k.blocks (owner, kind, placed, other, reply) VALUES (?, 4, ?, ?, ?) USING TTL 86400",
);
const KEPT: Statement =
    Statement::read("SELECT reply FROM %k.blocks WHERE owner = ? AND kind = 4 AND placed = ? LIMIT ?");
const KEPT_OF: Statement =
    Statement::read("SELECT reply FROM %k.blocks WHERE owner = ? AND kind = 4 AND placed = ? AND other = ?");
/// Maximum events that are read, the newest first: more than one record changes before they are read.
const EVENTS_READ_MAX: i32 = 100;

/// The event for a change; `None`: permissions stay the same.
pub(in crate::cql) fn permission_event(
    before: &Block,
    after: &Block,
    now: Timestamp,
) -> Option<RelationEvent> {
    let kind = RelationEventKind::SetPermissions { before: before.permissions, after: after.permissions };
    let id = RelationEventId::at(now, rand::random());
    (before.permissions != after.permissions).then_some(RelationEvent { id, edge: after.edge, kind })
}

/// Keeps the event for the change that made this version.
pub(in crate::cql) fn kept_part(version: Version, event: &RelationEvent) -> Result<Bound, StoreError> {
    let Edge { from, to } = event.edge;
    Ok(Bound(&KEEP, values![from.get(), to.get(), version.get(), event_body(event)?]))
}

impl Cql {
    /// Writes a record's kept events into the logs, once more or because they are missing.
    pub(in crate::cql) async fn resume_log(&self, edge: Edge) -> Result<(), StoreError> {
        self.write_kept(&KEPT, values![edge.from.get(), edge.to.get(), EVENTS_READ_MAX]).await
    }

    /// Writes the kept event for the change that made this record into the logs once more, if there is any.
    pub(in crate::cql) async fn resume_event(&self, block: &Block) -> Result<(), StoreError> {
        let Edge { from, to } = block.edge;
        self.write_kept(&KEPT_OF, values![from.get(), to.get(), block.version.get()]).await
    }

    async fn write_kept(&self, kept: &'static Statement, values: Values) -> Result<(), StoreError> {
        for row in self.client.records(kept, values).await? {
            let event: RelationEvent = row.json("reply")?;
            self.write_event(&event).await?;
        }
        Ok(())
    }
}
