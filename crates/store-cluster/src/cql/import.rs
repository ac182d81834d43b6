//! Bringing in follows from elsewhere.
//!
//! Rows are written plainly, with timestamps far in the past, so that any other write wins. Reading them back serially ends
//! the conditional writes that were under way and tells which rows are the import's; only these get entries in the lists.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{Edge, FollowList, ImportedFollow, StoreError, Timestamp};
use scylla::statement::batch::BatchType;

use super::{
    clock::is_imported,
    follow::{AT_A_TIME, by_partition},
    journal::Note,
    row::{FollowRow, Seat, entry_part, slice, stands},
    session::{Bound, Cql, Statement, values},
};

const ROWS: Statement = Statement::read(
    "SELECT followed, placed, in_following, in_fans, live, version, since, changed FROM %k.follows \
     WHERE follower = ? AND slice = ? AND followed IN ?",
);
const DECIDED: Statement = Statement::serial(
    "SELECT followed, placed, in_following, in_fans, live, version, since, changed FROM %k.follows \
     WHERE follower = ? AND slice = ? AND followed IN ?",
);
const BRING: Statement = Statement::plain(
    "INSERT INTO %k.follows (follower, slice, followed, placed, in_following, in_fans, live, version, since, changed) \
     VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?)",
);
/// Rows of one batch: far below 40 KiB.
const BATCH_ROWS: usize = 100;

impl Cql {
    pub(super) async fn import(&self, follows: &[ImportedFollow], now: Timestamp) -> Result<(), StoreError> {
        let since: BTreeMap<Edge, Timestamp> =
            follows.iter().rev().map(|follow| (follow.edge, follow.since)).collect();
        let edges: Vec<Edge> = since.keys().copied().collect();
        let groups = stream::iter(by_partition(&edges))
            .map(|group| self.import_group(group, &since, now))
            .buffer_unordered(AT_A_TIME);
        let ours: Vec<Vec<FollowRow>> = groups.try_collect().await?;
        let ours = ours.concat();
        self.import_entries(&ours).await?;
        self.settle_import(ours).await
    }

    /// Writes the rows of one partition that are not there; tells those that are an import's.
    async fn import_group(
        &self,
        edges: Vec<Edge>,
        since: &BTreeMap<Edge, Timestamp>,
        now: Timestamp,
    ) -> Result<Vec<FollowRow>, StoreError> {
        let there = self.rows_of(&ROWS, edges.clone()).await?;
        let mut fresh = Vec::new();
        for edge in edges.iter().filter(|edge| there.iter().all(|row| row.edge != **edge)) {
            let in_following = self.bucket_for(edge.from, FollowList::Following).await?;
            let in_fans = self.bucket_for(edge.to, FollowList::Fans).await?;
            let seat = Seat { at: now.0, in_following, in_fans };
            let since = since.get(edge).copied().unwrap_or(now);
            fresh.push((*edge, seat, since));
        }
        for rows in fresh.chunks(BATCH_ROWS) {
            // As late as can be: see what becomes of imports at once.
            let version = self.clock.imported_version();
            let rows = rows.iter().map(|(edge, seat, since)| bring_part(*edge, *seat, version, *since, now));
            self.batch(BatchType::Unlogged, rows.collect(), version).await?;
        }
        self.dies_at("brought")?;
        let decided = if fresh.is_empty() { there } else { self.rows_of(&DECIDED, edges).await? };
        let ours = |row: &FollowRow| row.is_live() && is_imported(row.version());
        Ok(decided.into_iter().filter(ours).collect())
    }

    /// Writes the entries of these rows in both lists, with the timestamps of the rows, and notes them.
    async fn import_entries(&self, rows: &[FollowRow]) -> Result<(), StoreError> {
        let mut partitions: BTreeMap<(i64, i32, i32, i64), Vec<Bound>> = BTreeMap::new();
        let mut notes: BTreeMap<i32, Vec<Bound>> = BTreeMap::new();
        for row in rows {
            let Some(state) = row.state else { continue };
            for (number, list) in [(0, FollowList::Following), (1, FollowList::Fans)] {
                let (owner, bucket, _) = stands(row.edge, list, row.seat);
                let part = entry_part(row.edge, list, row.seat, state);
                partitions.entry((owner.get(), number, bucket, state.version)).or_default().push(part);
            }
            let note = Note::of_follow(self, row.edge, row.seat, state.version);
            notes.entry(self.shard(row.edge)).or_default().push(note.part(self));
        }
        let timestamp = self.clock.micros();
        let entries = partitions.into_iter().map(|((.., version), parts)| (parts, version));
        let batches = entries.chain(notes.into_values().map(|parts| (parts, timestamp)));
        let batches = batches.flat_map(|(parts, timestamp)| {
            let chunks: Vec<_> = parts.chunks(BATCH_ROWS).map(|rows| (rows.to_vec(), timestamp)).collect();
            chunks
        });
        stream::iter(batches)
            .map(|(parts, timestamp)| self.batch(BatchType::Unlogged, parts, timestamp))
            .buffer_unordered(AT_A_TIME)
            .try_collect()
            .await
    }
}

impl Cql {
    /// Strikes the entries of rows that another import has taken meanwhile.
    async fn settle_import(&self, ours: Vec<FollowRow>) -> Result<(), StoreError> {
        let edges: Vec<Edge> = ours.iter().map(|row| row.edge).collect();
        let now: BTreeMap<Edge, FollowRow> =
            self.follow_rows(&edges).await?.into_iter().map(|row| (row.edge, row)).collect();
        for before in ours {
            if let Some(row) = now.get(&before.edge).filter(|row| row.seat != before.seat) {
                self.settle(row, before.seat, before.version()).await?;
            }
        }
        Ok(())
    }
}

fn bring_part(edge: Edge, seat: Seat, version: i64, since: Timestamp, now: Timestamp) -> Bound {
    let Seat { at, in_following, in_fans } = seat;
    let mut row = values![edge.from.get(), slice(edge), edge.to.get(), at, in_following, in_fans];
    row.extend(values![version, since.0, now.0]);
    Bound(&BRING, row)
}
