//! Idempotent requests. A request's effects and version are stored before they are applied: a retry applies
//! the same effects with the same timestamps, so that they count once.

use std::future::Future;

use kith_store::{Applied, Outcome, REQUEST_KEPT, Request, StoreError, Timestamp, Write};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    client::{
        error::{as_outcome, malformed},
        row::NamedRow,
        session::{Bound, Statement, Values, values},
    },
    stores::Cql,
};

const READ: Statement =
    Statement::serial("SELECT fingerprint, asked, plan, done FROM %k.requests WHERE id = ?");
const KEEP: Statement = Statement::conditional(
    "INSERT INTO %k.requests (id, fingerprint, asked, plan, done) VALUES (?, ?, ?, ?, 0) IF NOT EXISTS",
);
const REPLACE: Statement = Statement::conditional(
    "UPDATE %k.requests SET fingerprint = ?, asked = ?, plan = ?, done = 0 WHERE id = ? IF asked = ?",
);
const DONE: Statement =
    Statement::conditional("UPDATE %k.requests SET done = 1 WHERE id = ? IF fingerprint = ? AND done = 0");
const FORGET: Statement =
    Statement::conditional("DELETE FROM %k.requests WHERE id = ? IF fingerprint = ? AND done = 0");

/// How far a request has come.
#[derive(Debug)]
pub(super) enum RequestState<P> {
    /// It is new; this has to be done.
    New(P),
    /// Another call has begun it and may have completed it.
    Planned(P),
    /// The request is done.
    Done(P),
}

/// A request, and when it was first made.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestKey<'a> {
    pub(super) request: &'a Request,
    pub(super) begun: i64,
    /// When this call was made.
    pub(super) now: Timestamp,
}

/// An answer is stored in the partition that is changed, by the change's own write, for a day. It is read
/// serially, which first completes conditional writes in progress. It needs no condition itself: a retry has
/// read that there is no answer, and if an earlier attempt takes effect after that, the condition on the head
/// fails.
impl RequestKey<'_> {
    /// Where the answer is in the partition that is changed: a number made from the id, and [`Self::begun`].
    pub(super) fn position(self) -> (i64, i64) {
        // FNV-1a, which must not change; the stored row names its request.
        let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        let sum = self.request.id.as_str().bytes().fold(0xCBF2_9CE4_8422_2325, step);
        (sum.cast_signed(), self.begun)
    }

    /// The request's name in a stored answer: its id and its fingerprint.
    pub(super) fn name(self) -> String {
        let fingerprint: String = self.request.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}#{fingerprint}", self.request.id.as_str())
    }

    /// The statement that stores the answer in this partition. `put` takes the partition, then
    /// [`Self::position`], [`Self::name`] and the answer.
    pub(super) fn answer_part(
        self,
        put: &'static Statement,
        partition: Values,
        answer: &impl Serialize,
    ) -> Result<Bound, StoreError> {
        let (sum, begun) = self.position();
        let reply = serde_json::to_string(answer).map_err(|_| malformed("reply"))?;
        Ok(Bound(put, [partition, values![sum, begun, self.name(), reply]].concat()))
    }

    /// The stored answer among these rows, and the key under which it is stored.
    ///
    /// Its request may have begun before [`Self::begun`]: a first call may be forgotten as failed although
    /// its write takes effect later, because the server was stopped in the middle of it.
    pub(super) fn answer<A: DeserializeOwned>(
        self,
        rows: &[NamedRow],
    ) -> Result<Option<(A, Self)>, StoreError> {
        let found = rows.iter().find_map(|row| Some((row, self.answered_by(row)?)));
        found.map(|(row, begun)| Ok((row.json("reply")?, Self { begun, ..self }))).transpose()
    }

    /// When the request began that this row answers. `None`: the row answers another request, or is too old.
    fn answered_by(self, row: &NamedRow) -> Option<i64> {
        let is_named = matches!(row.text("request"), Ok(Some(name)) if name == self.name());
        let begun = row.number("begun").ok().flatten()?;
        (is_named && !is_expired(begun, self.now)).then_some(begun)
    }
}

/// A stored request.
struct StoredRequest<P> {
    asked: i64,
    plan: P,
    done: bool,
}

impl Cql {
    /// The plan for a request: the stored plan, else the result of `plan`, which is stored first. If `plan`
    /// fails, nothing is stored.
    pub(super) async fn plan_once<P: Serialize + DeserializeOwned>(
        &self,
        request: &Request,
        now: Timestamp,
        plan: impl Future<Output = Result<P, StoreError>>,
    ) -> Result<RequestState<P>, StoreError> {
        let before: Option<StoredRequest<P>> = self.stored_request(request, now).await?;
        let expired = before.as_ref().filter(|kept| is_expired(kept.asked, now)).map(|kept| kept.asked);
        if let Some(stored) = before
            && expired.is_none()
        {
            return Ok(stored.into());
        }
        let plan = match plan.await {
            Ok(plan) => plan,
            Err(error) => return self.plan_or_error(request, now, error).await,
        };
        let text = serde_json::to_string(&plan).map_err(|_| malformed("plan"))?;
        let (id, fingerprint) = (request.id.as_str().to_owned(), &request.fingerprint[..]);
        let keep = match expired {
            Some(asked) => Bound(&REPLACE, values![fingerprint, now.0, text, id, asked]),
            None => Bound(&KEEP, values![id, fingerprint, now.0, text]),
        };
        match self.client.write_if(vec![keep]).await {
            Ok(None) => Ok(RequestState::New(plan)),
            Ok(Some(_)) => self.other_plan(request, now).await,
            // Whichever call stored it, it is done.
            Err(error) if error.outcome() == Outcome::Unknown => match self.other_plan(request, now).await {
                Err(StoreError::Overloaded) => Err(as_outcome(error, Outcome::NotApplied)),
                plan => plan,
            },
            Err(error) => Err(error),
        }
    }

    /// Makes a change, for a request at most once: `change` gets the key for its answer, looks for the answer
    /// first, and stores it with its effect.
    pub(super) async fn change_once<'a, A, F>(
        &self,
        write: &'a Write,
        change: impl FnOnce(Option<RequestKey<'a>>) -> F,
    ) -> Result<Applied<A>, StoreError>
    where
        F: Future<Output = Result<Applied<A>, StoreError>>,
    {
        let Some(request) = &write.request else { return change(None).await };
        let (begun, is_new) = match self.plan_once(request, write.now, async { Ok(write.now.0) }).await? {
            RequestState::New(begun) => (begun, true),
            RequestState::Planned(begun) | RequestState::Done(begun) => (begun, false),
        };
        let changed = change(Some(RequestKey { request, begun, now: write.now })).await;
        self.close_request(request, is_new, changed.as_ref().err()).await?;
        changed
    }

    /// The plan that a concurrent call stored for the same request, and may have executed, so that `plan`
    /// failed; else that error.
    async fn plan_or_error<P: DeserializeOwned>(
        &self,
        request: &Request,
        now: Timestamp,
        error: StoreError,
    ) -> Result<RequestState<P>, StoreError> {
        match self.stored_request(request, now).await {
            Ok(Some(stored)) if !is_expired(stored.asked, now) => Ok(StoredRequest::into(stored)),
            Err(StoreError::RequestMismatch) => Err(StoreError::RequestMismatch),
            _ => Err(error),
        }
    }

    /// The plan that a concurrent call stored.
    async fn other_plan<P: DeserializeOwned>(
        &self,
        request: &Request,
        now: Timestamp,
    ) -> Result<RequestState<P>, StoreError> {
        self.stored_request(request, now).await?.map(StoredRequest::into).ok_or(StoreError::Overloaded)
    }

    async fn stored_request<P: DeserializeOwned>(
        &self,
        request: &Request,
        now: Timestamp,
    ) -> Result<Option<StoredRequest<P>>, StoreError> {
        let rows = self.client.records(&READ, values![request.id.as_str().to_owned()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let asked = row.some_number("asked")?;
        let is_same = row.bytes("fingerprint")? == Some(&request.fingerprint[..]);
        if !is_same && !is_expired(asked, now) {
            return Err(StoreError::RequestMismatch);
        }
        Ok(Some(StoredRequest { asked, plan: row.json("plan")?, done: row.some_number("done")? != 0 }))
    }

    /// Notes how a request ended: done; refused, and so forgotten; or unknown, and so unchanged. `is_new`:
    /// there was no earlier attempt.
    pub(super) async fn close_request(
        &self,
        request: &Request,
        is_new: bool,
        error: Option<&StoreError>,
    ) -> Result<(), StoreError> {
        let statement = match error {
            None => &DONE,
            Some(error) if is_forgotten(is_new, error) => &FORGET,
            Some(_) => return Ok(()),
        };
        let row = values![request.id.as_str().to_owned(), &request.fingerprint[..]];
        // Without this note, a retry repeats the effects once more.
        self.client.write_if(vec![Bound(statement, row)]).await.map(drop).or(Ok(()))
    }
}

impl<P> From<StoredRequest<P>> for RequestState<P> {
    fn from(stored: StoredRequest<P>) -> Self {
        if stored.done { Self::Done(stored.plan) } else { Self::Planned(stored.plan) }
    }
}

/// Whether a request that failed in this way is as if it had never been made. If an earlier call may have
/// done it, its effect remains although this call failed: only a decision from what is stored proves that
/// there is none.
fn is_forgotten(is_new: bool, error: &StoreError) -> bool {
    error.outcome() == Outcome::NotApplied && (is_new || error.is_decided())
}

fn is_expired(asked: i64, now: Timestamp) -> bool {
    Timestamp(asked).after(REQUEST_KEPT) <= now
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kith_store::{MemberRefusal, Version};

    use super::*;

    fn unavailable(outcome: Outcome) -> StoreError {
        StoreError::Unavailable { outcome, source: Arc::new(std::io::Error::other("unavailable")) }
    }

    #[test]
    fn repeated_request_is_forgotten_by_condition() {
        let decided = [
            StoreError::Member(MemberRefusal::Full),
            StoreError::Conflict { current: Version::FIRST },
            StoreError::NotFound,
            StoreError::Blocked,
        ];
        for error in decided {
            assert!(is_forgotten(true, &error) && is_forgotten(false, &error), "{error:?}");
        }
        for error in [StoreError::Overloaded, unavailable(Outcome::NotApplied)] {
            assert!(is_forgotten(true, &error) && !is_forgotten(false, &error), "{error:?}");
        }
        assert!(
            !is_forgotten(true, &unavailable(Outcome::Unknown))
                && !is_forgotten(false, &unavailable(Outcome::Unknown))
        );
    }
}
