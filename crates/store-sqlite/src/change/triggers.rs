//! The triggers that collect changes. They are temporary, like the table that they fill: they belong to the
//! connection that writes, and a savepoint that is rolled back takes back what they collected.

use rusqlite::Connection;

/// Collects a table's new and changed rows. All columns change together with the version, except those that
/// are no change. The values: the key as two numbers and a text, and the version.
macro_rules! watch {
    ($table:literal, $values:literal) => {
        concat!(watch!(appended: $table, $values), watch!($table, "_updated", "UPDATE OF version", $values))
    };
    (appended: $table:literal, $values:literal) => {
        watch!($table, "_inserted", "INSERT", $values)
    };
    ($table:literal, $name:literal, $event:literal, $values:literal) => {
        concat!(
            "CREATE TEMP TRIGGER ",
            $table,
            $name,
            " AFTER ",
            $event,
            " ON main.",
            $table,
            " BEGIN INSERT INTO changed_records (source, first, second, text, version) VALUES ('",
            $table,
            "', ",
            $values,
            "); END;"
        )
    };
}

macro_rules! unwatch {
    ($($table:literal),*) => {
        concat!($(
            "DROP TRIGGER IF EXISTS temp.", $table, "_inserted; DROP TRIGGER IF EXISTS temp.", $table, "_updated;"
        ),*)
    };
}

const TABLE: &str = "CREATE TEMP TABLE changed_records (
    place INTEGER PRIMARY KEY, source TEXT NOT NULL, first INTEGER, second INTEGER, text TEXT, version INTEGER)";
const DROP_TABLE: &str = "DROP TABLE IF EXISTS temp.changed_records";

/// Messages are only watched when they are appended: a recall, an edit and an erasure append an event, and
/// messages that retention removes are no change. No row of the other tables is removed.
const WATCHED: &str = concat!(
    watch!("users", "NEW.id, NULL, NULL, NEW.version"),
    watch!("groups", "NEW.id, NULL, NULL, NEW.version"),
    watch!("follows", "NEW.from_id, NEW.to_id, NULL, NEW.version"),
    watch!("blocks", "NEW.from_id, NEW.to_id, NULL, NEW.version"),
    watch!("members", "NEW.group_id, NEW.user_id, NULL, NEW.version"),
    watch!("rosters", "NEW.id, NULL, NULL, NEW.version"),
    watch!("conversations", "NULL, NULL, NEW.id, NEW.version"),
    watch!("audiences", "NEW.id, NULL, NULL, NEW.version"),
    watch!("notices", "NEW.id, NULL, NULL, NEW.version"),
    watch!("reaction_summaries", "NEW.document, NULL, NEW.conversation, NEW.version"),
    watch!(appended: "messages", "NEW.seq, NULL, NEW.conversation, NULL"),
);
const DIALOGS: &str = watch!("dialogs", "NEW.user_id, NULL, NEW.conversation, NEW.version");
const UNWATCHED: &str = unwatch!(
    "users",
    "groups",
    "follows",
    "blocks",
    "members",
    "rosters",
    "conversations",
    "audiences",
    "notices",
    "reaction_summaries",
    "messages",
    "dialogs"
);

/// Creates the table and its triggers.
pub(super) fn create(connection: &Connection, dialogs: bool) -> rusqlite::Result<()> {
    connection.execute_batch(TABLE)?;
    connection.execute_batch(WATCHED)?;
    if dialogs { connection.execute_batch(DIALOGS) } else { Ok(()) }
}

/// Drops what there is of them.
pub(super) fn drop(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(UNWATCHED)?;
    connection.execute_batch(DROP_TABLE)
}
