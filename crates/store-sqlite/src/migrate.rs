//! Migrations of the data file. The texts are part of the program.

use async_trait::async_trait;
use kith_store::{Migration, Migrations, StoreError, Timestamp};
use rusqlite::{Connection, params};

use crate::{
    Sqlite,
    error::{Failure, corrupt},
};

/// Number, name and text, without gaps.
const KNOWN: [(u32, &str, &str); 2] = [
    (1, "users and groups", include_str!("../../../migrations/sqlite/0001_users_and_groups.sql")),
    (2, "node", include_str!("../../../migrations/sqlite/0002_node.sql")),
];

const TABLE: &str = "CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_ms INTEGER NOT NULL) STRICT";
const TABLE_EXISTS: &str =
    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations')";
const APPLIED: &str = "SELECT number, applied_ms FROM migrations ORDER BY number";
const NOTE: &str = "INSERT INTO migrations (number, name, applied_ms) VALUES (?1, ?2, ?3)";

#[async_trait]
impl Migrations for Sqlite {
    async fn status(&self) -> Result<Vec<Migration>, StoreError> {
        self.readers.read(status).await
    }

    async fn migrate(&self) -> Result<Vec<Migration>, StoreError> {
        self.writer.alone(migrate).await
    }
}

/// The newest migration that this program knows.
pub(crate) fn newest_known() -> u32 {
    KNOWN.last().map_or(0, |(number, ..)| *number)
}

/// The newest migration that the file has seen; 0: none.
pub(crate) fn newest_applied(connection: &Connection) -> rusqlite::Result<u32> {
    Ok(applied(connection)?.last().map_or(0, |(number, _)| *number))
}

/// Applies what is pending, all or nothing.
pub(crate) fn migrate(connection: &Connection) -> Result<Vec<Migration>, Failure> {
    let transaction = Exclusive::begin(connection)?;
    connection.execute_batch(TABLE)?;
    let pending: Vec<_> = status(connection)?.into_iter().filter(|one| one.applied.is_none()).collect();
    let mut done = Vec::with_capacity(pending.len());
    for migration in pending {
        let now = Timestamp::now();
        let text = KNOWN.iter().find(|(number, ..)| *number == migration.number).map_or("", |known| known.2);
        connection.execute_batch(text)?;
        connection.execute(NOTE, params![migration.number, migration.name, now.0])?;
        done.push(Migration { applied: Some(now), ..migration });
    }
    transaction.commit()?;
    Ok(done)
}

fn status(connection: &Connection) -> Result<Vec<Migration>, Failure> {
    let applied = applied(connection)?;
    if applied.last().is_some_and(|(number, _)| *number > newest_known()) {
        return Err(corrupt("the data file was written by a newer version").into());
    }
    let at = |number: u32| applied.iter().find(|one| one.0 == number).map(|one| Timestamp(one.1));
    let known = KNOWN.iter();
    Ok(known
        .map(|(number, name, _)| Migration {
            number: *number,
            name: (*name).to_owned(),
            applied: at(*number),
        })
        .collect())
}

fn applied(connection: &Connection) -> rusqlite::Result<Vec<(u32, i64)>> {
    if !connection.query_row(TABLE_EXISTS, [], |row| row.get(0))? {
        return Ok(Vec::new());
    }
    let mut read = connection.prepare(APPLIED)?;
    read.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// A transaction that keeps all others out; rolled back unless committed.
struct Exclusive<'a>(&'a Connection);

impl<'a> Exclusive<'a> {
    fn begin(connection: &'a Connection) -> rusqlite::Result<Self> {
        connection.execute_batch("BEGIN EXCLUSIVE")?;
        Ok(Self(connection))
    }

    fn commit(self) -> rusqlite::Result<()> {
        self.0.execute_batch("COMMIT")
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        if self.0.is_autocommit() {
            return;
        }
        if let Err(error) = self.0.execute_batch("ROLLBACK") {
            tracing::error!(%error, "sqlite could not roll back a migration");
        }
    }
}
