//! Answers to requests about members. An answer is kept in the partition of the group for a day, and is written with
//! the change itself.

use kith_store::{Applied, GroupId, MemberKey, MembersUpdated, Outcome, StoreError};

use super::queue::PendingChange;
use crate::cql::{
    client::{
        error::{as_outcome, malformed},
        row::NamedRow,
        session::{Bound, Statement, values},
    },
    idempotency::RequestKey,
    stores::Cql,
};

/// It has no condition of its own: a retry that answers the same request has read that there is no answer, and the
/// condition on the roster holds as long as none was written.
const PUT: Statement = Statement::conditional(
    "INSERT INTO %k.members (grp, kind, place, member, request, reply) VALUES (?, 3, ?, ?, ?, ?) USING TTL 86400",
);
const ANSWERS: Statement = Statement::serial(
    "SELECT place, member, request, reply FROM %k.members WHERE grp = ? AND kind = 3 AND place IN ?",
);

impl Cql {
    /// Answers those of the wishes that were answered before, and keeps the others. A serial read, which first ends
    /// what an earlier call left in progress.
    pub(in crate::cql) async fn answer_again(
        &self,
        group: GroupId,
        wishes: &mut Vec<PendingChange>,
    ) -> Result<(), StoreError> {
        let places: Vec<i64> = wishes.iter().filter_map(|wish| wish.key().map(|key| key.place().1)).collect();
        if places.is_empty() {
            return Ok(());
        }
        let answers = self.client.records(&ANSWERS, values![group.get(), places]).await?;
        for wish in std::mem::take(wishes) {
            match wish.key().and_then(|key| answers.iter().find(|row| is_of(row, key))) {
                None => wishes.push(wish),
                Some(row) => wish.respond(row.json("reply").map(|record| Applied { record, replayed: true })),
            }
        }
        Ok(())
    }

    /// Completes what may be incomplete after the write of a repeated request.
    pub(in crate::cql) async fn end_memberships(&self, done: &MembersUpdated) -> Result<(), StoreError> {
        let keys: Vec<MemberKey> = done.rows.iter().map(|row| row.member.key).collect();
        self.mend_memberships(keys).await.map_err(|error| as_outcome(error, Outcome::Unknown))
    }
}

impl PendingChange {
    /// The stored part of the answer, if it has a request.
    pub(in crate::cql) fn answer_part(
        &self,
        group: GroupId,
        changed: &MembersUpdated,
    ) -> Result<Option<Bound>, StoreError> {
        let Some(key) = self.key() else { return Ok(None) };
        let (begun, sum) = key.place();
        let reply = serde_json::to_string(changed).map_err(|_| malformed("reply"))?;
        let id = key.request.id.as_str().to_owned();
        Ok(Some(Bound(&PUT, values![group.get(), sum, begun, id, reply])))
    }
}

fn is_of(row: &NamedRow, key: RequestKey<'_>) -> bool {
    key.is_of(row) && matches!(row.number("member"), Ok(Some(begun)) if begun == key.begun)
}
