//! Converts SQLite errors to the contract's errors.

use std::{fmt, path::Path, sync::Arc};

use kith_store::{Outcome, StoreError};
use rusqlite::{Connection, ErrorCode, ffi};

use crate::room;

/// An error in a statement, or in the work around it.
#[derive(Debug)]
pub(crate) enum Failure {
    Store(StoreError),
    Sqlite(rusqlite::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error,
            Failure::Sqlite(error) => store_error(error, Outcome::NotApplied),
        }
    }
}

impl Failure {
    /// Converts the error of a change that was not committed.
    pub(crate) fn of_write(self, connection: &Connection) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Sqlite(error) => write_error(connection, error, Outcome::NotApplied),
        }
    }
}

/// Like [`store_error`], but a write that failed because the file may not grow is [`StoreError::Full`]: for a
/// quota, and for the limit on file size, SQLite reports the same error as for a broken disk. Nothing was
/// applied then, because the commit record is written last.
pub(crate) fn write_error(connection: &Connection, error: rusqlite::Error, outcome: Outcome) -> StoreError {
    let code = error.sqlite_error().map(|error| error.extended_code);
    let could_not_grow = code.is_some_and(|code| GROWS.contains(&code))
        && connection.path().is_some_and(|path| !room::has_room(Path::new(path)));
    if could_not_grow { StoreError::Full { source: Arc::new(error) } } else { store_error(error, outcome) }
}

/// Errors when a file could not grow.
const GROWS: [i32; 3] = [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_TRUNCATE];

/// `outcome` applies to a disk error; all other errors mean that nothing was changed.
pub(crate) fn store_error(error: rusqlite::Error, outcome: Outcome) -> StoreError {
    let Some(code) = error.sqlite_error_code() else {
        return without_code(error);
    };
    let source = Arc::new(error);
    match code {
        ErrorCode::DiskFull => StoreError::Full { source },
        ErrorCode::SystemIoFailure => StoreError::Unavailable { outcome, source },
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::CannotOpen
        | ErrorCode::ReadOnly
        | ErrorCode::PermissionDenied
        | ErrorCode::OutOfMemory
        | ErrorCode::FileLockingProtocolFailed => {
            StoreError::Unavailable { outcome: Outcome::NotApplied, source }
        }
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Corrupt { source },
        _ => StoreError::Internal { outcome: Outcome::NotApplied, source },
    }
}

/// A column that cannot be decoded is damage; the error does not contain its content.
fn without_code(error: rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::InvalidColumnType(..) => corrupt("a column"),
        other => StoreError::Internal { outcome: Outcome::NotApplied, source: Arc::new(other) },
    }
}

/// Reports that the stored data for `what` cannot be decoded.
pub(crate) fn corrupt(what: &'static str) -> StoreError {
    StoreError::Corrupt { source: Arc::new(Reason(what)) }
}

/// The store has been closed, or its thread is gone.
pub(crate) fn closed(outcome: Outcome) -> StoreError {
    StoreError::Unavailable { outcome, source: Arc::new(Reason("the store is closed")) }
}

pub(crate) fn internal(reason: &'static str) -> StoreError {
    StoreError::Internal { outcome: Outcome::NotApplied, source: Arc::new(Reason(reason)) }
}

pub(crate) fn unavailable(reason: &'static str) -> StoreError {
    StoreError::Unavailable { outcome: Outcome::NotApplied, source: Arc::new(Reason(reason)) }
}

/// Whether a unique index refused the row.
pub(crate) fn is_duplicate(error: &rusqlite::Error) -> bool {
    let extended = error.sqlite_error().map(|error| error.extended_code);
    extended == Some(ffi::SQLITE_CONSTRAINT_UNIQUE)
}

#[derive(Debug)]
struct Reason(&'static str);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Reason {}
