//! Converts driver errors to errors in the store contract.

use std::{fmt::Debug, io, sync::Arc};

use kith_store::{Outcome, StoreError};
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};

/// An error's cause, in fixed words: the driver's own text may contain values and addresses.
#[derive(Debug, thiserror::Error)]
#[error("cql: {0}")]
struct CqlFailure(&'static str);

/// A column that is missing or malformed.
#[derive(Debug, thiserror::Error)]
#[error("the column {0} is missing or malformed")]
struct MalformedColumn(&'static str);

/// The error for a column that cannot be read.
pub(in crate::cql) fn malformed(column: &'static str) -> StoreError {
    StoreError::Corrupt { source: Arc::new(MalformedColumn(column)) }
}

/// The error for a call without a connection.
pub(in crate::cql) fn not_connected() -> StoreError {
    unavailable("not connected", Outcome::NotApplied)
}

/// The error for a call that was not answered in time.
pub(in crate::cql) fn out_of_time(outcome: Outcome) -> StoreError {
    StoreError::Unavailable { outcome, source: Arc::new(io::Error::from(io::ErrorKind::TimedOut)) }
}

pub(in crate::cql) fn unavailable(cause: &'static str, outcome: Outcome) -> StoreError {
    StoreError::Unavailable { outcome, source: Arc::new(CqlFailure(cause)) }
}

/// Returns the error with the outcome of the whole change. If that is unknown, an error that implies that
/// nothing was applied is replaced.
pub(in crate::cql) fn as_outcome(error: StoreError, outcome: Outcome) -> StoreError {
    match error {
        StoreError::Unavailable { source, .. } => StoreError::Unavailable { outcome, source },
        StoreError::Internal { source, .. } => StoreError::Internal { outcome, source },
        StoreError::Overloaded if outcome == Outcome::Unknown => {
            unavailable("overloaded after a write", outcome)
        }
        StoreError::Corrupt { source } if outcome == Outcome::Unknown => {
            StoreError::Internal { outcome, source }
        }
        other => other,
    }
}

/// The error for a read, which has no effect.
pub(in crate::cql) fn read_failed(error: &ExecutionError) -> StoreError {
    store_error(error, Outcome::NotApplied)
}

/// The error for a write.
pub(in crate::cql) fn write_failed(error: &ExecutionError) -> StoreError {
    store_error(error, outcome(error))
}

/// The error for a statement that could not be prepared, and so has not run.
pub(in crate::cql) fn prepare_failed(error: &PrepareError) -> StoreError {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt } => from_attempt(first_attempt, Outcome::NotApplied),
        _ => unavailable("a statement could not be prepared", Outcome::NotApplied),
    }
}

/// Whether a well-formed statement was refused because a table or keyspace does not exist.
pub(in crate::cql) fn is_missing_table(error: &ExecutionError) -> bool {
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
        ExecutionError::LastAttemptError(error) => from_attempt(error, outcome),
        ExecutionError::PrepareError(error) => prepare_failed(error),
        ExecutionError::EmptyPlan | ExecutionError::ConnectionPoolError(_) => {
            unavailable("no node can be reached", outcome)
        }
        ExecutionError::RequestTimeout(_) => unavailable("no answer in time", outcome),
        ExecutionError::BadQuery(_) => internal("the request cannot be sent", outcome),
        _ => internal("driver error", outcome),
    }
}

fn from_attempt(error: &RequestAttemptError, outcome: Outcome) -> StoreError {
    let RequestAttemptError::DbError(error, _) = error else {
        return match error {
            RequestAttemptError::BrokenConnectionError(_) => unavailable("connection lost", outcome),
            RequestAttemptError::UnableToAllocStreamId => StoreError::Overloaded,
            _ => internal("the answer was not understood", outcome),
        };
    };
    match error {
        DbError::Overloaded | DbError::RateLimitReached { .. } => StoreError::Overloaded,
        DbError::Unavailable { .. } | DbError::IsBootstrapping => {
            unavailable("too few nodes are available", outcome)
        }
        DbError::ReadTimeout { .. } | DbError::WriteTimeout { .. } => {
            unavailable("too few nodes answered in time", outcome)
        }
        DbError::ReadFailure { .. } | DbError::WriteFailure { .. } => unavailable("nodes failed", outcome),
        // Generic, for example if the server has no disk space or memory at the moment.
        DbError::ServerError => unavailable("the server failed", outcome),
        DbError::AuthenticationError | DbError::Unauthorized => unavailable("access was refused", outcome),
        // For a prepared statement this means that a table does not exist: the migrations were not applied.
        DbError::Invalid => unavailable("the tables do not exist", outcome),
        _ => internal("the request was refused", outcome),
    }
}

fn internal(cause: &'static str, outcome: Outcome) -> StoreError {
    StoreError::Internal { outcome, source: Arc::new(CqlFailure(cause)) }
}

/// Whether the driver could not connect because the user or the password was refused. Compares names in the
/// debug text, because the nesting of connection errors changes with each driver version.
pub(in crate::cql) fn is_refused(error: &impl Debug) -> bool {
    let text = format!("{error:?}");
    text.contains("AuthenticationError") || text.contains("AuthenticationRequired")
}

#[cfg(test)]
mod tests {
    use scylla::{errors::WriteType, statement::Consistency};

    use super::*;

    fn execution_error(error: DbError) -> ExecutionError {
        ExecutionError::LastAttemptError(attempt(error))
    }

    fn attempt(error: DbError) -> RequestAttemptError {
        RequestAttemptError::DbError(error, "secret 7".to_owned())
    }

    #[test]
    fn timed_out_write_has_unknown_outcome() {
        let late = DbError::WriteTimeout {
            consistency: Consistency::LocalQuorum,
            received: 0,
            required: 2,
            write_type: WriteType::Cas,
        };
        let few = DbError::Unavailable { consistency: Consistency::LocalQuorum, required: 2, alive: 1 };
        assert_eq!(write_failed(&execution_error(late)).outcome(), Outcome::Unknown);
        assert_eq!(write_failed(&execution_error(few)).outcome(), Outcome::NotApplied);
        let cut = ExecutionError::RequestTimeout(std::time::Duration::from_secs(5));
        assert_eq!(write_failed(&cut).outcome(), Outcome::Unknown);
        assert_eq!(read_failed(&cut).outcome(), Outcome::NotApplied);
    }

    #[test]
    fn overloaded_server_returns_overloaded() {
        assert!(matches!(write_failed(&execution_error(DbError::Overloaded)), StoreError::Overloaded));
        assert!(matches!(read_failed(&execution_error(DbError::Overloaded)), StoreError::Overloaded));
    }

    #[test]
    fn error_after_write_is_never_not_applied() {
        for error in
            [StoreError::Overloaded, malformed("body"), not_connected(), internal("", Outcome::NotApplied)]
        {
            assert_eq!(as_outcome(error.clone(), Outcome::Unknown).outcome(), Outcome::Unknown, "{error:?}");
            let before = as_outcome(error, Outcome::NotApplied);
            assert_eq!(before.outcome(), Outcome::NotApplied, "{before:?}");
        }
        assert!(matches!(as_outcome(StoreError::Overloaded, Outcome::NotApplied), StoreError::Overloaded));
    }

    #[test]
    fn missing_table_is_recognised_by_code() {
        let unprepared = PrepareError::AllAttemptsFailed { first_attempt: attempt(DbError::Invalid) };
        for error in [execution_error(DbError::Invalid), ExecutionError::PrepareError(unprepared)] {
            assert!(is_missing_table(&error), "{error:?}");
        }
        let only_text = RequestAttemptError::DbError(DbError::ServerError, "Invalid".to_owned());
        let late = ExecutionError::RequestTimeout(std::time::Duration::from_secs(5));
        let unauthorized = execution_error(DbError::Unauthorized);
        for error in [ExecutionError::LastAttemptError(only_text), late, unauthorized] {
            assert!(!is_missing_table(&error), "{error:?}");
        }
    }

    #[test]
    fn server_error_is_unavailable() {
        assert!(matches!(
            write_failed(&execution_error(DbError::ServerError)),
            StoreError::Unavailable { outcome: Outcome::Unknown, .. }
        ));
        assert!(matches!(
            read_failed(&execution_error(DbError::ServerError)),
            StoreError::Unavailable { outcome: Outcome::NotApplied, .. }
        ));
    }

    #[test]
    fn error_hides_text_of_driver() {
        for error in [DbError::Invalid, DbError::ServerError, DbError::SyntaxError] {
            let error = write_failed(&execution_error(error));
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
    }
}
