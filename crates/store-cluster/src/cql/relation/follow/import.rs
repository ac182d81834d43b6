//! Imports follows.
//!
//! Rows and entries are written without conditions, with timestamps far in the past, so that any other write
//! wins. An earlier import has a higher timestamp, so that the first of several concurrent imports wins. An
//! imported follow's slot is in separate columns, apart from the slot that a conditional write sets. The rows
//! are written first, and then each is read once. The read shows the follow's slot, and whether it is the
//! import's. The entries are written at this slot. A follow that begins meanwhile reads its row after its own
//! write: either the import sees the follow's slot, or the follow sees the import's slot and removes the
//! entries there.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{Edge, FollowList, ImportedFollow, StoreError, Timestamp};
use scylla::statement::batch::BatchType;

use super::{
    bucket::LISTS,
    row::{FollowRow, ListSlot, State, entry_key, imported_entry_part, key},
    store::ROWS_AT_ONCE,
};
use crate::cql::{
    change_log::ChangeLogEntry,
    client::{
        error::malformed,
        session::{AT_A_TIME, Bound, Statement, values},
        version_clock::is_imported,
    },
    stores::Cql,
};

const INSERT_ROW: Statement = Statement::plain(
    "INSERT INTO %k.follows (edge, brought, brought_following, brought_fans, \
     live, version, since, changed) VALUES (?, ?, ?, ?, 1, ?, ?, ?) USING TIMESTAMP ?",
);
/// Reads only the columns that show whether the row is as the import wrote it.
const ROWS: Statement = Statement::read(
    "SELECT edge, placed, brought, brought_following, brought_fans, version FROM %k.follows WHERE edge IN ?",
);
/// The columns in [`ROWS`].
type WrittenColumns = (Vec<u8>, Option<i64>, Option<i64>, Option<i32>, Option<i32>, Option<i64>);
/// Partitions in one batch: as many as Cassandra accepts without a warning.
const BATCH_PARTITIONS: usize = 10;
/// Rows in one batch: far below 40 KiB.
const BATCH_ROWS: usize = 100;

impl Cql {
    pub(in crate::cql) async fn import(
        &self,
        follows: &[ImportedFollow],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // If several follows are on one edge, the first counts.
        let since: BTreeMap<Edge, Timestamp> =
            follows.iter().rev().map(|follow| (follow.edge, follow.since)).collect();
        self.learn_heads(since.keys().flat_map(|edge| [edge.from, edge.to])).await?;
        let written = self.write_rows(&since, now).await?;
        self.fail_point("import_rows_written")?;
        let rows = self.rows_to_list(written).await?;
        self.write_entries(&rows).await?;
        self.log_import(&rows).await
    }

    /// Writes the rows. If a row has a state already, that state wins. Returns what was written, by rising
    /// edge.
    async fn write_rows(
        &self,
        since: &BTreeMap<Edge, Timestamp>,
        now: Timestamp,
    ) -> Result<Vec<FollowRow>, StoreError> {
        let mut slots = Vec::with_capacity(since.len());
        for (edge, since) in since {
            let in_following = self.bucket_for(edge.from, FollowList::Following).await?;
            let in_fans = self.bucket_for(edge.to, FollowList::Fans).await?;
            slots.push((*edge, ListSlot { at: now.0, in_following, in_fans }, *since));
        }
        // The version is taken as late as possible: imported versions fall with time, and among concurrent
        // imports the first to write should have the highest version.
        let version = self.client.clock.imported_version();
        let row = |(edge, slot, since): (Edge, ListSlot, Timestamp)| {
            let state = State { live: true, version, since: since.0, changed: now.0 };
            FollowRow { edge, slot, is_conditional: false, imported_slot: Some(slot), state: Some(state) }
        };
        let rows: Vec<FollowRow> = slots.into_iter().map(row).collect();
        let parts: Vec<Bound> = rows.iter().filter_map(|row| Some(row_part(row, row.state?))).collect();
        // Each is in a separate partition.
        self.write_batches(parts.chunks(BATCH_PARTITIONS)).await?;
        Ok(rows)
    }

    /// Returns the rows whose entries are to be written: those that are as written here, and those from an
    /// interrupted import, at the slots that they have.
    async fn rows_to_list(&self, written: Vec<FollowRow>) -> Result<Vec<FollowRow>, StoreError> {
        let groups: Vec<Vec<FollowRow>> = written.chunks(ROWS_AT_ONCE).map(<[FollowRow]>::to_vec).collect();
        let reads = stream::iter(groups).map(|rows| self.rows_as_written(rows)).buffer_unordered(AT_A_TIME);
        let mut ours: Vec<FollowRow> = reads.try_concat().await?;
        let own_edges: BTreeSet<Edge> = ours.iter().map(|row| row.edge).collect();
        let others: Vec<Edge> =
            written.iter().map(|row| row.edge).filter(|edge| !own_edges.contains(edge)).collect();
        let mut others = self.follow_rows(&others).await?;
        others.retain(|row| row.state.is_some_and(|state| state.live && is_imported(state.version)));
        ours.append(&mut others);
        Ok(ours)
    }

    /// Returns the rows that are as written here.
    async fn rows_as_written(&self, rows: Vec<FollowRow>) -> Result<Vec<FollowRow>, StoreError> {
        let keys: Vec<[u8; 16]> = rows.iter().map(|row| key(row.edge)).collect();
        let found = self.client.read(&ROWS, values![keys]).await?;
        let found = found.rows::<WrittenColumns>().map_err(|_| malformed("row"))?;
        let found: BTreeSet<WrittenColumns> =
            found.collect::<Result<_, _>>().map_err(|_| malformed("row"))?;
        Ok(rows.into_iter().filter(|row| found.contains(&written(row))).collect())
    }

    /// Writes rows' entries in both lists, those in one list together.
    async fn write_entries(&self, rows: &[FollowRow]) -> Result<(), StoreError> {
        let mut batches: Vec<Vec<Bound>> = Vec::new();
        for list in LISTS {
            let mut rows: Vec<(&FollowRow, State)> =
                rows.iter().filter_map(|row| Some((row, row.state?))).collect();
            rows.sort_unstable_by_key(|(row, _)| entry_key(row.edge, list, row.slot));
            let parts = |rows: &[(&FollowRow, State)]| {
                rows.iter()
                    .map(|(row, state)| imported_entry_part(row.edge, list, row.slot, *state))
                    .collect()
            };
            batches.extend(by_partitions(&rows, list).into_iter().map(parts));
        }
        self.write_batches(batches.iter().map(Vec::as_slice)).await
    }

    /// Adds the rows to the change log, after their entries are written.
    async fn log_import(&self, rows: &[FollowRow]) -> Result<(), StoreError> {
        let now = Some(self.client.clock.micros());
        stream::iter(ChangeLogEntry::parts_of_imported(self, rows))
            .map(|part| self.client.write(part, now))
            .buffer_unordered(AT_A_TIME)
            .try_collect()
            .await
    }

    /// Writes batches with independent parts, each with its timestamp.
    async fn write_batches(&self, batches: impl Iterator<Item = &[Bound]>) -> Result<(), StoreError> {
        let batches: Vec<Vec<Bound>> = batches.map(<[Bound]>::to_vec).collect();
        stream::iter(batches)
            .map(|parts| self.client.batch(BatchType::Unlogged, parts, None))
            .buffer_unordered(AT_A_TIME)
            .try_collect()
            .await
    }
}

/// Rows sorted by their position in a list, divided so that each part touches few partitions.
fn by_partitions<'a, T>(rows: &'a [(&'a FollowRow, T)], list: FollowList) -> Vec<&'a [(&'a FollowRow, T)]> {
    let partition = |at: usize| {
        let (owner, bucket, _) = entry_key(rows[at].0.edge, list, rows[at].0.slot);
        (owner, bucket)
    };
    let (mut cut, mut begin, mut partitions) = (Vec::new(), 0, 1);
    for at in 1..rows.len() {
        let is_new = partition(at) != partition(at - 1);
        partitions += usize::from(is_new);
        if at - begin == BATCH_ROWS || partitions > BATCH_PARTITIONS {
            cut.push(&rows[begin..at]);
            (begin, partitions) = (at, 1);
        }
    }
    cut.extend((begin < rows.len()).then(|| &rows[begin..]));
    cut
}

fn row_part(row: &FollowRow, state: State) -> Bound {
    let (edge, ListSlot { at, in_following, in_fans }) = (row.edge, row.slot);
    let mut row = values![key(edge), at, in_following, in_fans];
    row.extend(values![state.version, state.since, state.changed, state.version]);
    Bound(&INSERT_ROW, row)
}

/// The columns that a read returns if the row is as it was written.
fn written(row: &FollowRow) -> WrittenColumns {
    let (edge, ListSlot { at, in_following, in_fans }) = (row.edge, row.slot);
    let version = row.state.map(|state| state.version);
    (key(edge).to_vec(), None, Some(at), Some(in_following), Some(in_fans), version)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kith_store::UserId;

    use super::*;

    fn row(from: i64, to: i64) -> FollowRow {
        let edge = Edge { from: UserId::new(from).unwrap(), to: UserId::new(to).unwrap() };
        let slot = ListSlot { at: 1, in_following: 0, in_fans: 0 };
        FollowRow { edge, slot, is_conditional: false, imported_slot: Some(slot), state: None }
    }

    #[test]
    fn import_batches_are_small_and_complete() {
        let rows: Vec<FollowRow> =
            (1..=30).map(|from| row(from, 99)).chain((100..350).map(|to| row(50, to))).collect();
        let rows: Vec<(&FollowRow, ())> = rows.iter().map(|row| (row, ())).collect();
        let cut = by_partitions(&rows, FollowList::Following);
        for part in &cut {
            let partitions: BTreeSet<UserId> = part.iter().map(|(row, ())| row.edge.from).collect();
            assert!(partitions.len() <= BATCH_PARTITIONS && part.len() <= BATCH_ROWS, "{}", part.len());
        }
        assert_eq!(cut.concat(), rows);
        assert_eq!(cut.len(), 6, "three of ten users, and three of one user");
        assert!(by_partitions(&rows[..0], FollowList::Following).is_empty());
    }
}
