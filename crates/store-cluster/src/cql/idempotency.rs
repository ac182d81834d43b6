//! Idempotent requests. A request's effects and version are stored before they are applied: a retry applies
//! the same effects with the same timestamps, so that they count once.

use std::future::Future;

use kith_store::{Applied, Outcome, Request, StoreError, Timestamp, Write};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    client::{
        error::{as_outcome, malformed},
        session::{Bound, Statement, values},
    },
    request_key::{RequestKey, is_expired},
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
