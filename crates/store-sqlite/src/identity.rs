//! Whether a file is this program's data file, checked before anything in it is changed.

use std::path::Path;

use rusqlite::Connection;

use crate::open_error::{OpenError, sqlite_error};

/// A data file's `PRAGMA application_id`: "kith" in ASCII. Files from before it was set have 0, and a
/// migrations table.
const APPLICATION_ID: i32 = 0x6b69_7468;
const OBJECTS: &str = "SELECT count(*) FROM sqlite_schema";
const COLUMNS: &str = "SELECT group_concat(name) FROM pragma_table_info('migrations')";
/// The columns in [`crate::migrate`]. Tables with this name are common.
const OURS: &str = "number,name,applied_ms";

/// Refuses another program's database. Accepts an empty database.
///
/// # Errors
/// [`OpenError::Foreign`], or that it cannot be read.
pub(crate) fn refuse_foreign(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    match is_ours(connection) {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::Foreign { path: path.to_owned() }),
        Err(error) => Err(sqlite_error(path, error)),
    }
}

/// Marks the file as this program's file. Joins the transaction on `connection`, if there is any.
pub(crate) fn mark(connection: &Connection) -> rusqlite::Result<()> {
    if application_id(connection)? == APPLICATION_ID {
        return Ok(());
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)
}

fn is_ours(connection: &Connection) -> rusqlite::Result<bool> {
    match application_id(connection)? {
        APPLICATION_ID => return Ok(true),
        0 => {}
        _ => return Ok(false),
    }
    let objects: i64 = connection.query_row(OBJECTS, [], |row| row.get(0))?;
    let columns: Option<String> = connection.query_row(COLUMNS, [], |row| row.get(0))?;
    Ok(objects == 0 || columns.as_deref() == Some(OURS))
}

fn application_id(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
}
