//! Converts the driver's errors to the contract's errors.

use std::{io, sync::Arc};

use kith_store::{Outcome, StoreError};
use mongodb::error::{Error, ErrorKind, WriteFailure};

const DUPLICATE_KEY: i32 = 11000;
const OUT_OF_DISK_SPACE: i32 = 14031;
/// The server gave up, or stopped being the primary in between.
const INTERRUPTED: [i32; 13] = [50, 64, 89, 91, 189, 262, 9001, 10107, 11600, 11601, 11602, 13435, 13436];

/// The part of a driver error that is kept. Its own text may repeat document keys and values, and addresses.
#[derive(Debug, thiserror::Error)]
#[error("mongodb: {what}, code {code}")]
struct MongoFailure {
    what: &'static str,
    code: i32,
}

/// The stored data has an invalid form.
#[derive(Debug, thiserror::Error)]
#[error("the field {0} is missing or malformed")]
struct MalformedField(&'static str);

/// An error for a field that cannot be read.
pub(super) fn malformed(field: &'static str) -> StoreError {
    StoreError::Corrupt { source: Arc::new(MalformedField(field)) }
}

/// Whether a unique index refused the write. Which index is determined by a read: for an insert the driver
/// returns only a text that repeats the value.
pub(super) fn is_duplicate(error: &Error) -> bool {
    code(error) == Some(DUPLICATE_KEY)
}

/// Converts a read's error. A read has no effect.
#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
pub(super) fn read_failed(error: Error) -> StoreError {
    store_error(&error, Outcome::NotApplied)
}

/// Converts the error of a write outside a transaction.
#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
pub(super) fn write_failed(error: Error) -> StoreError {
    store_error(&error, outcome(&error))
}

/// Converts a commit's error: without a clear refusal it may have happened.
pub(super) fn commit_failed(error: &Error) -> StoreError {
    store_error(error, Outcome::Unknown)
}

/// The store did not answer in time.
pub(super) fn out_of_time(outcome: Outcome) -> StoreError {
    StoreError::Unavailable { outcome, source: Arc::new(io::Error::from(io::ErrorKind::TimedOut)) }
}

/// The server has not answered the last pings: nothing is sent.
pub(super) fn no_ping_answer() -> StoreError {
    let source = Arc::new(MongoFailure { what: "no answer to pings", code: 0 });
    StoreError::Unavailable { outcome: Outcome::NotApplied, source }
}

/// The code that the server returned, wherever it is in the error.
pub(super) fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(command) => Some(command.code),
        ErrorKind::Write(WriteFailure::WriteError(write)) => Some(write.code),
        ErrorKind::Write(WriteFailure::WriteConcernError(concern)) => Some(concern.code),
        _ => None,
    }
}

/// Whether a failed command may have been applied. The driver retries a write once after a lost connection,
/// and then reports the error from the attempt that may have written. A pool that is cleared also ends
/// commands that were sent and wait for their answer.
fn outcome(error: &Error) -> Outcome {
    if error.contains_label("NoWritesPerformed") {
        return Outcome::NotApplied;
    }
    match &*error.kind {
        ErrorKind::ServerSelection { .. }
        | ErrorKind::DnsResolve { .. }
        | ErrorKind::Authentication { .. }
        | ErrorKind::InvalidArgument { .. }
        | ErrorKind::InvalidTlsConfig { .. }
        | ErrorKind::BsonSerialization(_)
        | ErrorKind::SessionsNotSupported
        | ErrorKind::IncompatibleServer { .. }
        | ErrorKind::Transaction { .. }
        | ErrorKind::Shutdown => Outcome::NotApplied,
        ErrorKind::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => Outcome::NotApplied,
        ErrorKind::Command(command) if !INTERRUPTED.contains(&command.code) => Outcome::NotApplied,
        ErrorKind::Write(WriteFailure::WriteError(write)) if !INTERRUPTED.contains(&write.code) => {
            Outcome::NotApplied
        }
        _ => Outcome::Unknown,
    }
}

fn store_error(error: &Error, outcome: Outcome) -> StoreError {
    let failure = MongoFailure { what: what(error), code: code(error).unwrap_or_default() };
    if failure.code == OUT_OF_DISK_SPACE {
        return StoreError::Full { source: Arc::new(failure) };
    }
    if is_unavailable(error) {
        return StoreError::Unavailable { outcome, source: Arc::new(failure) };
    }
    if matches!(&*error.kind, ErrorKind::BsonDeserialization(_) | ErrorKind::Bson(_))
        && outcome == Outcome::NotApplied
    {
        return StoreError::Corrupt { source: Arc::new(failure) };
    }
    StoreError::Internal { outcome, source: Arc::new(failure) }
}

fn is_unavailable(error: &Error) -> bool {
    let is_network_error = matches!(
        &*error.kind,
        ErrorKind::ServerSelection { .. }
            | ErrorKind::ConnectionPoolCleared { .. }
            | ErrorKind::DnsResolve { .. }
            | ErrorKind::Io(_)
            | ErrorKind::Shutdown
            | ErrorKind::Write(WriteFailure::WriteConcernError(_))
    );
    is_network_error
        || code(error).is_some_and(|code| INTERRUPTED.contains(&code))
        || error.contains_label("TransientTransactionError")
        || error.contains_label("RetryableWriteError")
}

fn what(error: &Error) -> &'static str {
    match &*error.kind {
        ErrorKind::ServerSelection { .. } => "no primary in time",
        ErrorKind::ConnectionPoolCleared { .. } => "connection pool cleared",
        ErrorKind::DnsResolve { .. } => "a name does not resolve",
        ErrorKind::Io(_) => "connection lost",
        ErrorKind::Authentication { .. } => "authentication refused",
        ErrorKind::InvalidTlsConfig { .. } => "TLS set up wrongly",
        ErrorKind::Command(_) => "command refused",
        ErrorKind::Write(WriteFailure::WriteConcernError(_)) => "no majority in time",
        ErrorKind::Write(_) => "write refused",
        ErrorKind::BsonDeserialization(_) | ErrorKind::Bson(_) | ErrorKind::InvalidResponse { .. } => {
            "answer not understood"
        }
        ErrorKind::Shutdown => "client closed",
        _ => "driver error",
    }
}
