//! Answers to requests about applications. An answer is kept in the receiver's partition for a day, and is
//! written with the change itself.

use kith_store::{Application, Receiver, StoreError};

use crate::cql::{
    client::{
        error::malformed,
        session::{Bound, Statement, values},
    },
    idempotency::RequestKey,
    stores::Cql,
};

/// It has no condition itself: a retry that answers the same request has read that there is no answer, and
/// the condition on the version holds as long as none was written.
const PUT: Statement = Statement::conditional(
    "INSERT INTO %k.applications (side, receiver, kind, place, origin, request, reply) \
     VALUES (?, ?, 2, ?, ?, ?, ?) USING TTL 86400",
);
const ANSWER: Statement = Statement::serial(
    "SELECT origin, request, reply FROM %k.applications \
     WHERE side = ? AND receiver = ? AND kind = 2 AND place = ?",
);

impl Cql {
    /// The earlier answer to this request. A serial read, which first ends what an earlier call left in
    /// progress.
    pub(super) async fn application_answer(
        &self,
        receiver: Receiver,
        key: RequestKey<'_>,
    ) -> Result<Option<Application>, StoreError> {
        let ((side, id), (sum, _)) = (receiver.numbers(), key.position());
        let rows = self.client.records(&ANSWER, values![side, id, sum]).await?;
        let answer = rows.iter().find(|row| key.answered_by(row, "origin").is_some());
        answer.map(|row| row.json("reply")).transpose()
    }
}

/// The stored part of an answer.
pub(super) fn part(
    receiver: Receiver,
    key: RequestKey<'_>,
    answered: &Application,
) -> Result<Bound, StoreError> {
    let ((side, id), (sum, begun)) = (receiver.numbers(), key.position());
    let reply = serde_json::to_string(answered).map_err(|_| malformed("reply"))?;
    Ok(Bound(&PUT, values![side, id, sum, begun, key.name(), reply]))
}
