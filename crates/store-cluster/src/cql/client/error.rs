//! Errors of the driver as errors of the contract.

use std::{fmt::Debug, io, sync::Arc};

use kith_store::{Outcome, StoreError};
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};

/// The part of a driver's error that is kept. The error's own text may contain values and addresses.
#[derive(Debug, thiserror::Error)]
#[error("cql: {0}")]
struct CqlFailure(&'static str);

/// Stored data are malformed.
#[derive(Debug, thiserror::Error)]
#[error("the column {0} is missing or malformed")]
struct MalformedColumn(&'static str);

/// An error for a column that cannot be read.
pub(in crate::cql) fn malformed(column: &'static str) -> StoreError {
    StoreError::Corrupt { source: Arc::new(MalformedColumn(column)) }
}

/// There is no connection.
pub(in crate::cql) fn away() -> StoreError {
    unavailable("not connected", Outcome::NotApplied)
}

/// The store did not answer in time.
pub(in crate::cql) fn out_of_time(outcome: Outcome) -> StoreError {
    StoreError::Unavailable { outcome, source: Arc::new(io::Error::from(io::ErrorKind::TimedOut)) }
}

pub(in crate::cql) fn unavailable(said: &'static str, outcome: Outcome) -> StoreError {
    StoreError::Unavailable { outcome, source: Arc::new(CqlFailure(said)) }
}

/// The same error with this outcome, for a step after which the whole change may have taken effect. Errors that imply
/// that nothing was applied are replaced.
pub(in crate::cql) fn as_outcome(error: StoreError, outcome: Outcome) -> StoreError {
    match error {
        StoreError::Unavailable { source, .. } => StoreError::Unavailable { outcome, source },
        StoreError::Internal { source, .. } => StoreError::Internal { outcome, source },
        StoreError::Overloaded if outcome == Outcome::Unknown => {
            unavailable("too much to do after a write", outcome)
        }
        StoreError::Corrupt { source } if outcome == Outcome::Unknown => {
            StoreError::Internal { outcome, source }
        }
        other => other,
    }
}

/// An error of a read, which has no effect.
pub(in crate::cql) fn read_failed(error: &ExecutionError) -> StoreError {
    store_error(error, Outcome::NotApplied)
}

/// An error of a write.
pub(in crate::cql) fn write_failed(error: &ExecutionError) -> StoreError {
    store_error(error, outcome(error))
}

/// An error of preparing a statement: it has not run.
pub(in crate::cql) fn prepare_failed(error: &PrepareError) -> StoreError {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt } => of_attempt(first_attempt, Outcome::NotApplied),
        _ => unavailable("a statement could not be prepared", Outcome::NotApplied),
    }
}

/// Whether a well-formed statement was refused because a table or keyspace does not exist.
pub(in crate::cql) fn names_what_is_not_there(error: &ExecutionError) -> bool {
    let attempt = match error {
        ExecutionError::LastAttemptError(attempt)
        | ExecutionError::PrepareError(PrepareError::AllAttemptsFailed { first_attempt: attempt }) => attempt,
        _ => return false,
    };
    matches!(attempt, RequestAttemptError::DbError(DbError::Invalid, _))
}

/// Whether the failed statement may have been applied.
fn outcome(error: &ExecutionError) -> Outcome {
    let refused = match error {
        ExecutionError::BadQuery(_)
        | ExecutionError::EmptyPlan
        | ExecutionError::PrepareError(_)
        | ExecutionError::ConnectionPoolError(_) => true,
        ExecutionError::LastAttemptError(attempt) => !may_have_run(attempt),
        _ => false,
    };
    if refused { Outcome::NotApplied } else { Outcome::Unknown }
}

/// Whether a sent statement with this failure may have been applied.
pub(in crate::cql) fn may_have_run(attempt: &RequestAttemptError) -> bool {
    let RequestAttemptError::DbError(error, _) = attempt else { return true };
    !matches!(
        error,
        DbError::SyntaxError
            | DbError::Invalid
            | DbError::AuthenticationError
            | DbError::Unauthorized
            | DbError::ConfigError
            | DbError::Unavailable { .. }
            | DbError::IsBootstrapping
    )
}

fn store_error(error: &ExecutionError, outcome: Outcome) -> StoreError {
    match error {
        ExecutionError::LastAttemptError(error) => of_attempt(error, outcome),
        ExecutionError::PrepareError(error) => prepare_failed(error),
        ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) => {
            unavailable("no node can be reached", outcome)
        }
        ExecutionError::RequestTimeout(_) => unavailable("no answer in time", outcome),
        ExecutionError::BadQuery(_) => internal("a request that cannot be sent", outcome),
        _ => internal("driver error", outcome),
    }
}

fn of_attempt(error: &RequestAttemptError, outcome: Outcome) -> StoreError {
    let RequestAttemptError::DbError(error, _) = error else {
        return match error {
            RequestAttemptError::BrokenConnectionError(_) => unavailable("connection lost", outcome),
            RequestAttemptError::UnableToAllocStreamId => StoreError::Overloaded,
            _ => internal("answer not understood", outcome),
        };
    };
    match error {
        DbError::Overloaded | DbError::RateLimitReached { .. } => StoreError::Overloaded,
        DbError::Unavailable { .. } | DbError::IsBootstrapping => {
            unavailable("too few nodes are there", outcome)
        }
        DbError::ReadTimeout { .. } | DbError::WriteTimeout { .. } => {
            unavailable("too few nodes answered in time", outcome)
        }
        DbError::ReadFailure { .. } | DbError::WriteFailure { .. } => unavailable("nodes failed", outcome),
        // A generic error, for example if it has no disk space or memory at this moment.
        DbError::ServerError => unavailable("the server failed", outcome),
        DbError::AuthenticationError | DbError::Unauthorized => unavailable("access refused", outcome),
        // For a prepared statement this means that a table does not exist: the migrations were not applied.
        DbError::Invalid => unavailable("the tables are not there", outcome),
        _ => internal("request refused", outcome),
    }
}

fn internal(said: &'static str, outcome: Outcome) -> StoreError {
    StoreError::Internal { outcome, source: Arc::new(CqlFailure(said)) }
}

/// Whether the driver could not connect because the user or the password was refused. The nesting of connection errors
/// changes with each version of the driver; this one name does not.
pub(in crate::cql) fn is_refused(error: &impl Debug) -> bool {
    let said = format!("{error:?}");
    said.contains("AuthenticationError") || said.contains("AuthenticationRequired")
}

#[cfg(test)]
mod tests {
    use scylla::{errors::WriteType, statement::Consistency};

    use super::*;

    fn said(error: DbError) -> ExecutionError {
        ExecutionError::LastAttemptError(attempt(error))
    }

    fn attempt(error: DbError) -> RequestAttemptError {
        RequestAttemptError::DbError(error, "secret 7".to_owned())
    }

    #[test]
    fn cut_write_is_unknown_refused_write_is_not() {
        let late = DbError::WriteTimeout {
            consistency: Consistency::LocalQuorum,
            received: 0,
            required: 2,
            write_type: WriteType::Cas,
        };
        let few = DbError::Unavailable { consistency: Consistency::LocalQuorum, required: 2, alive: 1 };
        assert_eq!(write_failed(&said(late)).outcome(), Outcome::Unknown);
        assert_eq!(write_failed(&said(few)).outcome(), Outcome::NotApplied);
        let cut = ExecutionError::RequestTimeout(std::time::Duration::from_secs(5));
        assert_eq!(write_failed(&cut).outcome(), Outcome::Unknown);
        assert_eq!(read_failed(&cut).outcome(), Outcome::NotApplied);
    }

    #[test]
    fn a_store_that_has_too_much_to_do_is_overloaded() {
        assert!(matches!(write_failed(&said(DbError::Overloaded)), StoreError::Overloaded));
        assert!(matches!(read_failed(&said(DbError::Overloaded)), StoreError::Overloaded));
    }

    #[test]
    fn error_after_a_write_is_never_not_applied() {
        for error in [StoreError::Overloaded, malformed("body"), away(), internal("", Outcome::NotApplied)] {
            assert_eq!(as_outcome(error.clone(), Outcome::Unknown).outcome(), Outcome::Unknown, "{error:?}");
            let before = as_outcome(error, Outcome::NotApplied);
            assert_eq!(before.outcome(), Outcome::NotApplied, "{before:?}");
        }
        assert!(matches!(as_outcome(StoreError::Overloaded, Outcome::NotApplied), StoreError::Overloaded));
    }

    #[test]
    fn missing_table_is_recognised_by_code() {
        let unprepared = PrepareError::AllAttemptsFailed { first_attempt: attempt(DbError::Invalid) };
        for error in [said(DbError::Invalid), ExecutionError::PrepareError(unprepared)] {
            assert!(names_what_is_not_there(&error), "{error:?}");
        }
        let worded = RequestAttemptError::DbError(DbError::ServerError, "Invalid".to_owned());
        let late = ExecutionError::RequestTimeout(std::time::Duration::from_secs(5));
        for error in [ExecutionError::LastAttemptError(worded), late, said(DbError::Unauthorized)] {
            assert!(!names_what_is_not_there(&error), "{error:?}");
        }
    }

    #[test]
    fn a_server_that_fails_may_answer_later() {
        assert!(matches!(
            write_failed(&said(DbError::ServerError)),
            StoreError::Unavailable { outcome: Outcome::Unknown, .. }
        ));
        assert!(matches!(
            read_failed(&said(DbError::ServerError)),
            StoreError::Unavailable { outcome: Outcome::NotApplied, .. }
        ));
    }

    #[test]
    fn no_error_repeats_what_the_driver_said() {
        for error in [DbError::Invalid, DbError::ServerError, DbError::SyntaxError] {
            let error = write_failed(&said(error));
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
    }
}
