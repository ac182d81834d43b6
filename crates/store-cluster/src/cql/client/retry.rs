//! How often a request is sent, and whether it may have taken effect when all attempts have failed.

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

/// Retries of one request: repeats once, at another node, an idempotent request that met an unreachable node. A request
/// that met an overloaded node is not repeated, which would add load.
///
/// The driver returns only the last error. That no other node could be reached does not say whether the node to which
/// the request was sent first executed it, so this keeps whether any attempt may have taken effect.
#[derive(Clone, Debug, Default)]
pub(in crate::cql) struct Attempts {
    may_have_run: Arc<AtomicBool>,
}

impl Attempts {
    /// The error of a write with these attempts.
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
        Box::new(Tries { attempts: self.clone(), made: 0 })
    }
}

struct Tries {
    attempts: Attempts,
    made: u32,
}

impl RetrySession for Tries {
    fn decide_should_retry(&mut self, info: RequestInfo<'_>) -> RetryDecision {
        self.attempts.note(info.error);
        self.made += 1;
        if self.made == 1 && is_tried_again(info.error, info.is_idempotent) {
            return RetryDecision::RetryNextTarget(None);
        }
        RetryDecision::DontRetry
    }

    fn reset(&mut self) {
        self.made = 0;
    }
}

fn is_tried_again(error: &RequestAttemptError, is_idempotent: bool) -> bool {
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

    /// Regression: a follow whose answer was lost with the connection was reported as not applied, because no other
    /// node could be reached.
    #[test]
    fn failed_retry_keeps_outcome_unknown() {
        let attempts = Attempts::default();
        let nobody = ExecutionError::EmptyPlan;
        assert_eq!(attempts.failed(&nobody).outcome(), Outcome::NotApplied);
        attempts.note(&RequestAttemptError::DbError(unavailable(), String::new()));
        assert_eq!(attempts.failed(&nobody).outcome(), Outcome::NotApplied);
        attempts.clone().note(&RequestAttemptError::DbError(DbError::ServerError, String::new()));
        assert_eq!(attempts.failed(&nobody).outcome(), Outcome::Unknown);
    }

    #[test]
    fn only_unready_node_is_retried_elsewhere() {
        for idempotent in [true, false] {
            let not_ready = RequestAttemptError::DbError(unavailable(), String::new());
            let too_much = RequestAttemptError::DbError(DbError::Overloaded, String::new());
            assert!(is_tried_again(&not_ready, idempotent));
            assert!(!is_tried_again(&too_much, idempotent));
        }
    }
}
