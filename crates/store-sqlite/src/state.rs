//! The preconditions for writes. `state` is SQL that reads version and `deleted` by id.

use kith_store::{StoreError, Version, Write};
use rusqlite::Connection;

use crate::{error::Failure, row::version, statement::first};

/// The version that a new record gets: the first, or a stub's next version.
pub(crate) fn version_for_new(connection: &Connection, state: &str, id: i64) -> Result<Version, Failure> {
    match read(connection, state, id)? {
        Some((_, false)) => Err(StoreError::IdTaken.into()),
        Some((version, true)) => Ok(version.next()),
        None => Ok(Version::FIRST),
    }
}

/// Reads an existing record's version.
pub(crate) fn live_version(connection: &Connection, state: &str, id: i64) -> Result<Version, Failure> {
    match read(connection, state, id)? {
        Some((version, false)) => Ok(version),
        Some((_, true)) | None => Err(StoreError::NotFound.into()),
    }
}

/// Compares a record's version with the version that the write expects.
pub(crate) fn check_expected(write: &Write, current: Version) -> Result<(), Failure> {
    match write.expected {
        Some(expected) if expected != current => Err(StoreError::Conflict { current }.into()),
        Some(_) | None => Ok(()),
    }
}

fn read(connection: &Connection, state: &str, id: i64) -> Result<Option<(Version, bool)>, Failure> {
    first(connection, state, [id], |row| Ok((version(row, 0)?, row.get(1)?)))
}
