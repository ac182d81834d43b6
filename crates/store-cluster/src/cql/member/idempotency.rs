//! Stored answers to requests that change members. An answer is in the group's partition, is written with the
//! change itself, and is kept for a day.

use kith_store::{Applied, GroupId, MemberKey, MembersUpdated, Outcome, StoreError};

use super::queue::PendingChange;
use crate::cql::{
    client::{
        error::as_outcome,
        session::{Bound, Statement, values},
    },
    stores::Cql,
};

const PUT: Statement = Statement::conditional(
    "INSERT INTO %k.members (grp, kind, place, member, request, reply) \
     VALUES (?, 3, ?, ?, ?, ?) USING TTL 86400",
);
const ANSWERS: Statement = Statement::serial(
    "SELECT member AS begun, request, reply FROM %k.members WHERE grp = ? AND kind = 3 AND place IN ?",
);

impl Cql {
    /// Responds to the changes whose requests were answered before, and keeps the others in `queued`.
    pub(in crate::cql) async fn answer_repeated(
        &self,
        group: GroupId,
        queued: &mut Vec<PendingChange>,
    ) -> Result<(), StoreError> {
        let keys = queued.iter().filter_map(PendingChange::key);
        let sums: Vec<i64> = keys.map(|key| key.position().0).collect();
        if sums.is_empty() {
            return Ok(());
        }
        let answers = self.client.records(&ANSWERS, values![group.get(), sums]).await?;
        for pending in std::mem::take(queued) {
            match pending.key().map_or(Ok(None), |key| key.answer(&answers)) {
                Ok(None) => queued.push(pending),
                Ok(Some((record, _))) => pending.respond(Ok(Applied { record, replayed: true })),
                Err(error) => pending.respond(Err(error)),
            }
        }
        Ok(())
    }

    /// Writes the memberships that a repeated request's first call may not have written.
    pub(in crate::cql) async fn complete_memberships(&self, done: &MembersUpdated) -> Result<(), StoreError> {
        let keys: Vec<MemberKey> = done.rows.iter().map(|row| row.member.key).collect();
        self.repair_memberships(keys).await.map_err(|error| as_outcome(error, Outcome::Unknown))
    }
}

impl PendingChange {
    /// The statement that stores the answer, if the change has a request.
    pub(in crate::cql) fn answer_part(
        &self,
        group: GroupId,
        changed: &MembersUpdated,
    ) -> Result<Option<Bound>, StoreError> {
        self.key().map(|key| key.answer_part(&PUT, values![group.get()], changed)).transpose()
    }
}
