//! The triggers that collect changes. They are temporary, like the table that they fill: they belong to the
//! connection that writes, and a savepoint that is rolled back takes back what they collected.

use rusqlite::Connection;

/// Watches one table.
#[derive(Clone, Copy)]
struct Watched {
    table: &'static str,
    /// The key's columns: two numbers and a text, or NULL.
    key: [&'static str; 3],
    /// The version, or NULL.
    version: &'static str,
    /// Whether a row may also be changed. Columns besides the version change only with it.
    is_updated: bool,
}

const TABLE: &str = "CREATE TEMP TABLE changed_records (
    place INTEGER PRIMARY KEY, source TEXT NOT NULL, first INTEGER, second INTEGER, text TEXT, version INTEGER)";
const DROP_TABLE: &str = "DROP TABLE IF EXISTS temp.changed_records";

const DIALOGS: &str = "dialogs";

/// Messages are only watched when they are appended: a recall, an edit and an erasure append an event, and
/// messages that retention removes are no change. No row of the other tables is removed.
const WATCHED: [Watched; 11] = [
    watched("users", ["id", "NULL", "NULL"]),
    watched("groups", ["id", "NULL", "NULL"]),
    watched("follows", ["from_id", "to_id", "NULL"]),
    watched("blocks", ["from_id", "to_id", "NULL"]),
    watched("members", ["group_id", "user_id", "NULL"]),
    watched("rosters", ["id", "NULL", "NULL"]),
    watched(DIALOGS, ["user_id", "NULL", "conversation"]),
    watched("conversations", ["NULL", "NULL", "id"]),
    watched("audiences", ["id", "NULL", "NULL"]),
    watched("notices", ["id", "NULL", "NULL"]),
    Watched { table: "messages", key: ["seq", "NULL", "conversation"], version: "NULL", is_updated: false },
];

/// Creates the table and its triggers.
pub(super) fn create(connection: &Connection, dialogs: bool) -> rusqlite::Result<()> {
    connection.execute_batch(TABLE)?;
    let mut watched = WATCHED.iter().filter(|watched| dialogs || watched.table != DIALOGS);
    watched.try_for_each(|watched| connection.execute_batch(&watched.triggers()))
}

/// Drops what there is of them.
pub(super) fn drop(connection: &Connection) -> rusqlite::Result<()> {
    for Watched { table, .. } in WATCHED {
        connection.execute_batch(&format!(
            "DROP TRIGGER IF EXISTS temp.{table}_inserted; DROP TRIGGER IF EXISTS temp.{table}_updated;"
        ))?;
    }
    connection.execute_batch(DROP_TABLE)
}

const fn watched(table: &'static str, key: [&'static str; 3]) -> Watched {
    Watched { table, key, version: "version", is_updated: true }
}

impl Watched {
    fn triggers(&self) -> String {
        let Self { version, is_updated, .. } = self;
        let inserted = self.trigger("inserted", "INSERT");
        if !is_updated {
            return inserted;
        }
        inserted + &self.trigger("updated", &format!("UPDATE OF {version}"))
    }

    fn trigger(&self, name: &str, event: &str) -> String {
        let Self { table, key, version, .. } = self;
        let values = key.map(column_of_new).join(", ");
        let version = column_of_new(version);
        format!(
            "CREATE TEMP TRIGGER {table}_{name} AFTER {event} ON main.{table} BEGIN
                 INSERT INTO changed_records (source, first, second, text, version)
                 VALUES ('{table}', {values}, {version});
             END;"
        )
    }
}

fn column_of_new(column: &str) -> String {
    if column == "NULL" { column.to_owned() } else { format!("NEW.{column}") }
}
