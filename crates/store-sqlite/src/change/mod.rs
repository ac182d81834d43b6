//! The kept changes: triggers collect what a commit changes, and the commit keeps it as entries.

mod collected;
mod triggers;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use kith_store::{
    ChangesEntry, ChangesExtent, ChangesStore, ENTRIES_READ_MAX, KeptPositions, StoreError, Timestamp,
    unpack_changes,
};
use rusqlite::{Connection, Row, params};

use crate::{
    Sqlite,
    error::{Failure, corrupt},
    row::size,
    statement::{all, first, run},
};

/// The only feed: all commits to the file.
const FEED: &str = "file";
/// Bytes of an entry besides its changes, in the file.
const ENTRY_BYTES: usize = 32;
/// Entries that one call removes.
const REMOVED_AT_ONCE: usize = 2_000;

/// One statement, so one moment. Each end is one step in the primary key.
pub(crate) const EXTENT: &str = "SELECT generation, dialogs, base, (SELECT min(number) FROM changes),
    (SELECT max(number) FROM changes) FROM changes_state WHERE generation IS NOT NULL";
/// Uses the primary key.
pub(crate) const AFTER: &str =
    "SELECT number, written_ms, packed FROM changes WHERE number > ?1 ORDER BY number LIMIT ?2";
/// The end of the primary key.
pub(crate) const LAST: &str = "SELECT number, total FROM changes ORDER BY number DESC LIMIT 1";
/// The beginning of the primary key.
pub(crate) const OLDEST: &str = "SELECT number, written_ms, total FROM changes ORDER BY number LIMIT ?1";
/// Uses the primary key.
pub(crate) const REMOVE: &str = "DELETE FROM changes WHERE number <= ?1";

const RAISE_BASE: &str =
    "UPDATE changes_state SET base = max(base, (SELECT coalesce(max(number), 0) FROM changes))";
const REMOVE_ALL: &str = "DELETE FROM changes";
const BEGIN: &str = "UPDATE changes_state SET generation = random(), dialogs = ?1";
const END: &str = "UPDATE changes_state SET generation = NULL";
const STATE: &str = "SELECT dialogs FROM changes_state WHERE generation IS NOT NULL";
const HAS_STATE: &str =
    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'changes_state')";

/// Whether the connection that writes collects changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collecting(Arc<AtomicBool>);

impl Collecting {
    /// Begins to collect if the file keeps changes. A file that is not migrated keeps none.
    pub(crate) fn begin_if_kept(connection: &Connection) -> rusqlite::Result<Self> {
        let collecting = Self::default();
        let has_state: bool = connection.query_row(HAS_STATE, [], |row| row.get(0))?;
        if has_state && let Some(dialogs) = kept(connection)? {
            triggers::create(connection, dialogs)?;
            collecting.set(true);
        }
        Ok(collecting)
    }

    /// Keeps what the open transaction changed.
    pub(crate) fn keep(&self, connection: &Connection) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) { collected::keep(connection) } else { Ok(()) }
    }

    fn set(&self, is_on: bool) {
        self.0.store(is_on, Ordering::Relaxed);
    }
}

/// Begins a new generation if the file keeps changes: for a file that no other process has open.
pub(crate) fn renew_generation(connection: &Connection) -> Result<(), Failure> {
    match kept(connection)? {
        Some(dialogs) => begin(connection, dialogs),
        None => Ok(()),
    }
}

#[async_trait]
impl ChangesStore for Sqlite {
    async fn changes_extent(&self) -> Result<Option<ChangesExtent>, StoreError> {
        self.readers.read(|connection| first(connection, EXTENT, [], extent)).await
    }

    async fn changes_after(&self, feed: &str, after: i64) -> Result<Vec<ChangesEntry>, StoreError> {
        if feed != FEED {
            return Ok(Vec::new());
        }
        let read = move |connection: &Connection| {
            all(connection, AFTER, params![after, size(ENTRIES_READ_MAX)], entry)
        };
        self.readers.read(read).await
    }

    async fn begin_generation(&self, dialogs: bool) -> Result<(), StoreError> {
        let collecting = self.collecting.clone();
        let begin = move |connection: &Connection| {
            let transaction = connection.unchecked_transaction()?;
            begin(&transaction, dialogs)?;
            triggers::drop(&transaction)?;
            triggers::create(&transaction, dialogs)?;
            transaction.commit()?;
            collecting.set(true);
            Ok(())
        };
        self.writer.exclusively(begin).await
    }

    async fn end_changes(&self) -> Result<(), StoreError> {
        let collecting = self.collecting.clone();
        let end = move |connection: &Connection| {
            let transaction = connection.unchecked_transaction()?;
            run(&transaction, RAISE_BASE, [])?;
            run(&transaction, REMOVE_ALL, [])?;
            run(&transaction, END, [])?;
            triggers::drop(&transaction)?;
            transaction.commit()?;
            collecting.set(false);
            Ok(())
        };
        self.writer.exclusively(end).await
    }

    async fn trim_changes(&self, kept: Duration, bytes_max: u64) -> Result<bool, StoreError> {
        let before = Timestamp::now().before(kept);
        let bytes_max = i64::try_from(bytes_max).unwrap_or(i64::MAX);
        self.writer.write(move |connection| trim(connection, before, bytes_max)).await
    }
}

/// Whether dialogs are kept; `None`: no changes are.
fn kept(connection: &Connection) -> rusqlite::Result<Option<bool>> {
    let mut state = connection.prepare(STATE)?;
    let mut rows = state.query_map([], |row| row.get(0))?;
    rows.next().transpose()
}

fn begin(connection: &Connection, dialogs: bool) -> Result<(), Failure> {
    run(connection, RAISE_BASE, [])?;
    run(connection, REMOVE_ALL, [])?;
    run(connection, BEGIN, [dialogs])
}

fn extent(row: &Row<'_>) -> Result<ChangesExtent, Failure> {
    let generation: i64 = row.get(0)?;
    let base: i64 = row.get(2)?;
    let (first, last): (Option<i64>, Option<i64>) = (row.get(3)?, row.get(4)?);
    let positions = KeptPositions { first: first.unwrap_or(base + 1), last: last.unwrap_or(base) };
    let generation = u64::from_ne_bytes(generation.to_ne_bytes());
    Ok(ChangesExtent { generation, dialogs: row.get(1)?, feeds: [(FEED.to_owned(), positions)].into() })
}

fn entry(row: &Row<'_>) -> Result<ChangesEntry, Failure> {
    let packed = row.get_ref(2)?.as_blob().map_err(|_| corrupt("changes.packed"))?;
    let changes = unpack_changes(packed).ok_or_else(|| corrupt("changes.packed"))?;
    Ok(ChangesEntry { feed: FEED.to_owned(), number: row.get(0)?, written: Timestamp(row.get(1)?), changes })
}

/// Removes the oldest entries up to the last one that is too old, or beyond the bytes. An entry with a later
/// entry that is too old is too old itself, whatever the clock said when it was written.
fn trim(connection: &Connection, before: Timestamp, bytes_max: i64) -> Result<bool, Failure> {
    let last = first(connection, LAST, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    let Some((last, total)) = last else { return Ok(false) };
    let oldest: Vec<(i64, bool)> = all(connection, OLDEST, [size(REMOVED_AT_ONCE)], |row| {
        let (written, up_to) = (Timestamp(row.get(1)?), row.get::<_, i64>(2)?);
        let is_beyond = total.saturating_sub(up_to) >= bytes_max;
        Ok((row.get(0)?, written < before || is_beyond))
    })?;
    let removable = oldest.iter().rposition(|(number, ends)| *ends && *number < last);
    if let Some(at) = removable {
        run(connection, REMOVE, [oldest[at].0])?;
    }
    Ok(removable == Some(REMOVED_AT_ONCE - 1))
}
