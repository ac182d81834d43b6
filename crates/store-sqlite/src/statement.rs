//! Statements that SQLite prepares once: run for their effect, for their first row, or for all rows.

use rusqlite::{Connection, Params, Row};

use crate::error::Failure;

/// Runs a statement that returns no row.
pub(crate) fn run(connection: &Connection, sql: &str, values: impl Params) -> Result<(), Failure> {
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// Returns the first row, as `of` reads it; `None`: there is no row.
pub(crate) fn first<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    of: impl FnOnce(&Row<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    rows.next()?.map(of).transpose()
}

/// Returns all rows, as `of` reads them.
pub(crate) fn all<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    of: impl FnMut(&Row<'_>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    connection.prepare_cached(sql)?.query_and_then(values, of)?.collect()
}
