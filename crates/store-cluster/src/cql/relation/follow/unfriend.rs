//! Ends friendships. Each end has one event even if both users, or several nodes, end it at the same time.
//!
//! Before a write ends a follow whose opposite exists, it stores its event by a conditional write, under the
//! two users and the version by which they became friends. All such writes put the first stored event into
//! the logs.

use kith_store::{Edge, Outcome, RelationEvent, RelationEventId, RelationEventKind, StoreError, Timestamp};

use super::row::FollowRow;
use crate::cql::{
    client::{
        error::as_outcome,
        session::{Bound, Statement, values},
    },
    relation::log::{event, event_body},
    stores::Cql,
};

const STORE_EVENT: Statement = Statement::conditional(
    "INSERT INTO %k.partings (lower, upper, since, body) VALUES (?, ?, ?, ?) IF NOT EXISTS",
);
const STORED_EVENT: Statement =
    Statement::serial("SELECT body FROM %k.partings WHERE lower = ? AND upper = ? AND since = ?");

impl Cql {
    /// The event that `by.from` ends the friendship with `by.to`, by ending one of the two follows; `None`:
    /// they are not friends.
    pub(in crate::cql) async fn unfriend_event(
        &self,
        by: Edge,
        follows: [&FollowRow; 2],
        now: Timestamp,
    ) -> Result<Option<RelationEvent>, StoreError> {
        if !follows.iter().all(|row| row.is_live()) {
            return Ok(None);
        }
        let [one, other] = follows.map(FollowRow::version);
        let (lower, upper) = (by.from.min(by.to).get(), by.from.max(by.to).get());
        let since = one.max(other);
        let id = RelationEventId::at(now, rand::random());
        let own = RelationEvent { id, edge: by, kind: RelationEventKind::Unfriended };
        match self
            .client
            .write_if(vec![Bound(&STORE_EVENT, values![lower, upper, since, event_body(&own)?])])
            .await
        {
            Ok(None) => Ok(Some(own)),
            Ok(Some(stored)) => event(&stored).map(Some),
            Err(error) if error.outcome() == Outcome::Unknown => {
                // The event comes from this call or another: either is correct.
                let stored = self.client.records(&STORED_EVENT, values![lower, upper, since]).await?;
                let stored = stored.first().ok_or_else(|| as_outcome(error, Outcome::NotApplied))?;
                event(stored).map(Some)
            }
            Err(error) => Err(error),
        }
    }
}
