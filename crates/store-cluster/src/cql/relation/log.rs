//! Events between users, in both users' logs. Every writer writes the same entry, so that it may be written
//! again.

use async_trait::async_trait;
use kith_store::{RelationEvent, RelationEventId, RelationLog, StoreError, Timestamp, UserId};
use scylla::statement::batch::BatchType;

use crate::cql::{
    client::{
        error::malformed,
        month::month,
        row::NamedRow,
        session::{Bound, Statement, values},
    },
    stores::Cql,
};

const PUT: Statement =
    Statement::plain("INSERT INTO %k.relation_log (owner, month, id, body) VALUES (?, ?, ?, ?) USING TTL ?");
const LIST: Statement =
    Statement::read("SELECT body FROM %k.relation_log WHERE owner = ? AND month = ? AND id > ? LIMIT ?");

#[async_trait]
impl RelationLog for Cql {
    async fn relation_log(
        &self,
        user: UserId,
        after: RelationEventId,
        limit: usize,
    ) -> Result<Vec<RelationEvent>, StoreError> {
        let _permit = self.client.admit()?;
        let rows =
            self.client.by_month(&LIST, values![user.get()], after.moment(), after.get(), limit).await?;
        rows.iter().map(event).collect()
    }

    /// The server forgets: each entry has a time to live.
    async fn forget_relation_log(&self, _: Timestamp, _: usize) -> Result<u64, StoreError> {
        Ok(0)
    }
}

impl Cql {
    /// The entries for an event in both logs.
    pub(super) fn event_parts(&self, event: &RelationEvent) -> Result<[Bound; 2], StoreError> {
        let (id, ttl) = (event.id, self.client.ttl(event.forgotten(self.client.options.log_kept)));
        let body = event_body(event)?;
        let part = |owner: UserId| {
            Bound(&PUT, values![owner.get(), month(id.moment()), id.get(), body.clone(), ttl])
        };
        Ok(event.owners().map(part))
    }

    /// Writes an event into both logs.
    pub(super) async fn write_event(&self, event: &RelationEvent) -> Result<(), StoreError> {
        let parts = self.event_parts(event)?.to_vec();
        self.client.batch(BatchType::Logged, parts, self.client.clock.version(0)).await
    }
}

/// An event as it is stored.
pub(super) fn event_body(event: &RelationEvent) -> Result<String, StoreError> {
    serde_json::to_string(event).map_err(|_| malformed("event"))
}

/// Reads the event in a row's body.
pub(super) fn event(row: &NamedRow) -> Result<RelationEvent, StoreError> {
    row.json("body")
}
