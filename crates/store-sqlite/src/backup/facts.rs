//! Facts about a data file.

use std::path::Path;

use kith_store::IdKind;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::migrate;

const HAS_TABLE: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)";
const EPOCH: &str = "SELECT value FROM node_state WHERE name = 'epoch'";
const NEXT_ID: &str = "SELECT next FROM id_counters WHERE kind = ?1";
const USERS: &str = "SELECT count(*) FROM users WHERE deleted = 0";
const GROUPS: &str = "SELECT count(*) FROM groups WHERE deleted = 0";

/// Counts in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Newest migration; 0: none.
    pub(super) schema: u32,
    pub(super) epoch: i64,
    /// Existing users.
    pub(super) users: u64,
    /// Existing groups.
    pub(super) groups: u64,
}

/// Opens a file that no other process has, for reading and writing, with its log folded into it.
pub(super) fn open_alone(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.pragma_update(None, "trusted_schema", "OFF")?;
    connection.pragma_update(None, "journal_mode", "DELETE")?;
    Ok(connection)
}

/// Reads all tables with users and groups once.
pub(super) fn facts(connection: &Connection) -> rusqlite::Result<Facts> {
    let count = |table, sql| match has_table(connection, table)? {
        true => connection.query_row(sql, [], |row| row.get::<_, i64>(0)),
        false => Ok(0),
    };
    Ok(Facts {
        schema: migrate::newest_applied(connection)?.map_or(0, |(number, _)| number),
        epoch: epoch(connection)?,
        users: count("users", USERS)?.unsigned_abs(),
        groups: count("groups", GROUPS)?.unsigned_abs(),
    })
}

/// Returns the epoch; 0 if it was never raised.
pub(super) fn epoch(connection: &Connection) -> rusqlite::Result<i64> {
    if !has_table(connection, "node_state")? {
        return Ok(0);
    }
    Ok(connection.query_row(EPOCH, [], |row| row.get(0)).optional()?.unwrap_or_default())
}

/// The lowest id that was not allocated; 0 if none was.
pub(super) fn next_id(connection: &Connection, kind: IdKind) -> rusqlite::Result<i64> {
    if !has_table(connection, "id_counters")? {
        return Ok(0);
    }
    Ok(connection.query_row(NEXT_ID, [kind.name()], |row| row.get(0)).optional()?.unwrap_or_default())
}

pub(super) fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    connection.query_row(HAS_TABLE, [name], |row| row.get(0))
}

/// Whether SQLite finds no fault; reads the whole file.
pub(super) fn is_sound(connection: &Connection) -> rusqlite::Result<bool> {
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok(found == "ok")
}
