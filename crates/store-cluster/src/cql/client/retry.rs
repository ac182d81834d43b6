//! Retries requests, and decides whether a request may have taken effect after all attempts have failed.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use kith_store::{Outcome, StoreError};
use scylla::{
    errors::{DbError, ExecutionError, RequestAttemptError},
    policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession},
};

use super::error::{as_outcome, may_have_run, write_failed};

/// Counts one request's attempts. A request is retried once, on another server: if the server was not ready,
/// or, for an idempotent request, if the connection broke. An overloaded server is no reason to retry, which
/// would add load.
///
/// The driver returns only the last error, which does not show whether an earlier attempt was executed. So
/// this remembers whether any attempt may have taken effect.
#[derive(Clone, Debug, Default)]
pub(in crate::cql) struct Attempts {
    may_have_run: Arc<AtomicBool>,
}

impl Attempts {
    /// The error for a write after these attempts.
    pub(in crate::cql) fn failed(&self, error: &ExecutionError) -> StoreError {
        let failed = write_failed(error);
        if self.may_have_run.load(Ordering::Acquire) { as_outcome(failed, Outcome::Unknown) } else { failed }
    }

    fn note(&self, error: &RequestAttemptError) {
        if may_have_run(error) {
            self.may_have_run.store(true, Ordering::Release);
        }
    }
}

impl RetryPolicy for Attempts {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(RetryState { attempts: self.clone(), failed: 0 })
    }
}

struct RetryState {
    attempts: Attempts,
    failed: u32,
}

impl RetrySession for RetryState {
    fn decide_should_retry(&mut self, info: RequestInfo<'_>) -> RetryDecision {
        self.attempts.note(info.error);
        self.failed += 1;
        if self.failed == 1 && is_retried(info.error, info.is_idempotent) {
            return RetryDecision::RetryNextTarget(None);
        }
        RetryDecision::DontRetry
    }

    fn reset(&mut self) {
        self.failed = 0;
    }
}

fn is_retried(error: &RequestAttemptError, is_idempotent: bool) -> bool {
    match error {
        RequestAttemptError::DbError(DbError::IsBootstrapping | DbError::Unavailable { .. }, _) => true,
        RequestAttemptError::BrokenConnectionError(_) => is_idempotent,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use scylla::statement::Consistency;

    use super::*;

    fn unavailable() -> DbError {
        DbError::Unavailable { consistency: Consistency::LocalQuorum, required: 2, alive: 1 }
    }

    /// Regression: a follow whose answer was lost with the connection was reported as not applied, because no
    /// other node could be reached.
    #[test]
    fn failed_retry_keeps_outcome_unknown() {
        let attempts = Attempts::default();
        let no_server = ExecutionError::EmptyPlan;
        assert_eq!(attempts.failed(&no_server).outcome(), Outcome::NotApplied);
        attempts.note(&RequestAttemptError::DbError(unavailable(), String::new()));
        assert_eq!(attempts.failed(&no_server).outcome(), Outcome::NotApplied);
        attempts.clone().note(&RequestAttemptError::DbError(DbError::ServerError, String::new()));
        assert_eq!(attempts.failed(&no_server).outcome(), Outcome::Unknown);
    }

    #[test]
    fn unready_is_retried_and_overloaded_is_not() {
        for idempotent in [true, false] {
            let not_ready = RequestAttemptError::DbError(unavailable(), String::new());
            let overloaded = RequestAttemptError::DbError(DbError::Overloaded, String::new());
            assert!(is_retried(&not_ready, idempotent));
            assert!(!is_retried(&overloaded, idempotent));
        }
    }
}
