//! The data file's migrations. The texts are part of the program.

use async_trait::async_trait;
use kith_store::{Migration, Migrations, StoreError, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::{Sqlite, error::Failure, identity};

/// Each migration's number, name and text, without gaps.
const KNOWN: [(u32, &str, &str); 21] = [
    (1, "users and groups", include_str!("../../../migrations/sqlite/0001_users_and_groups.sql")),
    (2, "node", include_str!("../../../migrations/sqlite/0002_node.sql")),
    (3, "leases", include_str!("../../../migrations/sqlite/0003_leases.sql")),
    (4, "relations", include_str!("../../../migrations/sqlite/0004_relations.sql")),
    (5, "members", include_str!("../../../migrations/sqlite/0005_members.sql")),
    (6, "applications", include_str!("../../../migrations/sqlite/0006_applications.sql")),
    (7, "relation log", include_str!("../../../migrations/sqlite/0007_relation_log.sql")),
    (8, "bans", include_str!("../../../migrations/sqlite/0008_bans.sql")),
    (9, "messages", include_str!("../../../migrations/sqlite/0009_messages.sql")),
    (10, "member ranges", include_str!("../../../migrations/sqlite/0010_member_ranges.sql")),
    (11, "dialogs", include_str!("../../../migrations/sqlite/0011_dialogs.sql")),
    (12, "erasures", include_str!("../../../migrations/sqlite/0012_erasures.sql")),
    (13, "sequences", include_str!("../../../migrations/sqlite/0013_sequences.sql")),
    (14, "notices", include_str!("../../../migrations/sqlite/0014_notices.sql")),
    (15, "receipts", include_str!("../../../migrations/sqlite/0015_receipts.sql")),
    (16, "fan-out notes", include_str!("../../../migrations/sqlite/0016_fan_out_notes.sql")),
    (17, "user access", include_str!("../../../migrations/sqlite/0017_user_access.sql")),
    (18, "message times", include_str!("../../../migrations/sqlite/0018_message_times.sql")),
    (19, "group icons", include_str!("../../../migrations/sqlite/0019_group_icons.sql")),
    (20, "changes", include_str!("../../../migrations/sqlite/0020_changes.sql")),
    (21, "reactions", include_str!("../../../migrations/sqlite/0021_reactions.sql")),
];

const TABLE: &str = "CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_ms INTEGER NOT NULL) STRICT";
const TABLE_EXISTS: &str =
    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations')";
const APPLIED: &str = "SELECT number, applied_ms FROM migrations ORDER BY number";
const NEWEST: &str = "SELECT number, name FROM migrations ORDER BY number DESC LIMIT 1";
const NOTE: &str = "INSERT INTO migrations (number, name, applied_ms) VALUES (?1, ?2, ?3)";

#[async_trait]
impl Migrations for Sqlite {
    async fn status(&self) -> Result<Vec<Migration>, StoreError> {
        self.readers.read(status).await
    }

    async fn migrate(&self) -> Result<Vec<Migration>, StoreError> {
        self.writer.exclusively(migrate).await
    }
}

/// The newest migration that this program knows.
pub(crate) fn newest_known() -> u32 {
    KNOWN.last().map_or(0, |(number, ..)| *number)
}

/// The number and name of the newest migration in the file.
pub(crate) fn newest_applied(connection: &Connection) -> rusqlite::Result<Option<(u32, String)>> {
    if !has_table(connection)? {
        return Ok(None);
    }
    connection.query_row(NEWEST, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// Returns all known migrations, as pending.
pub(crate) fn none_applied() -> Vec<Migration> {
    let pending = |(number, name, _): &(u32, &str, &str)| Migration {
        number: *number,
        name: (*name).to_owned(),
        applied: None,
    };
    KNOWN.iter().map(pending).collect()
}

/// Applies all pending migrations, or none.
pub(crate) fn migrate(connection: &Connection) -> Result<Vec<Migration>, Failure> {
    let transaction = Exclusive::begin(connection)?;
    connection.execute_batch(TABLE)?;
    identity::mark(connection)?;
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

/// See [`Migrations::status`].
pub(crate) fn status(connection: &Connection) -> Result<Vec<Migration>, Failure> {
    let applied = applied(connection)?;
    if let Some((found, name)) = newest_applied(connection)?.filter(|(number, _)| *number > newest_known()) {
        return Err(StoreError::NewerSchema { found, name, known: newest_known() }.into());
    }
    let at = |number: u32| applied.iter().find(|one| one.0 == number).map(|one| Timestamp(one.1));
    let mut all = none_applied();
    for migration in &mut all {
        migration.applied = at(migration.number);
    }
    Ok(all)
}

fn has_table(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row(TABLE_EXISTS, [], |row| row.get(0))
}

fn applied(connection: &Connection) -> rusqlite::Result<Vec<(u32, i64)>> {
    if !has_table(connection)? {
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
