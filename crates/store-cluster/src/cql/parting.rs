//! The ends of friendships, each of which is told once though both users end it, or several nodes, at the same time.
//!
//! Whoever is about to end a follow that is answered by the other one says so by a conditional write, under the two users and
//! the version by which they became friends. What the first one says is what all of them write into the logs.

use kith_store::{Edge, Outcome, RelationDeed, RelationEvent, RelationEventId, StoreError, Timestamp};

use super::{
    error::as_outcome,
    relation_log::{event, event_body},
    row::FollowRow,
    session::{Bound, Cql, Statement, values},
};

const SAY: Statement = Statement::conditional(
    "INSERT INTO %k.partings (lower, upper, since, body) VALUES (?, ?, ?, ?) IF NOT EXISTS",
);
const SAID: Statement =
    Statement::serial("SELECT body FROM %k.partings WHERE lower = ? AND upper = ? AND since = ?");

impl Cql {
    /// What is told where `by.from` parts from `by.to` by ending one of these follows; `None`: they are no friends.
    pub(super) async fn parting(
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
        let told = RelationEvent { id, edge: by, deed: RelationDeed::Unfriended };
        match self.decide(vec![Bound(&SAY, values![lower, upper, since, event_body(&told)?])]).await {
            Ok(None) => Ok(Some(told)),
            Ok(Some(said)) => event(&said).map(Some),
            Err(error) if error.outcome() == Outcome::Unknown => {
                // It is one's own word, or somebody else's: either does.
                let said = self.records(&SAID, values![lower, upper, since]).await?;
                let said = said.first().ok_or_else(|| as_outcome(error, Outcome::NotApplied))?;
                event(said).map(Some)
            }
            Err(error) => Err(error),
        }
    }
}
