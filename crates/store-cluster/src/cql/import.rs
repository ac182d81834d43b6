//! Bringing in follows from elsewhere.
//!
//! Rows and entries are written plainly, with timestamps far in the past, so that any other write wins, and the earlier the
//! higher, so that of imports at once the first does. Where an import puts a follow stands in columns of its own, apart from
//! those that are decided. The rows are read before, to leave alone what is there, and after: a follow that was begun
//! meanwhile and took another seat either is seen then, or sees where the import put it. Whoever sees it strikes the entries
//! of the import.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{Edge, FollowList, ImportedFollow, StoreError, Timestamp, UserId};
use scylla::statement::batch::BatchType;

use super::{
    clock::{IMPORTED_MAX, is_imported},
    follow::AT_A_TIME,
    journal::Note,
    row::{FollowRow, Seat, State, entry_parts, slice},
    session::{Bound, Cql, Statement, values},
};

const BRING: Statement = Statement::plain(
    "INSERT INTO %k.follows (follower, slice, followed, brought, brought_following, brought_fans, \
     live, version, since, changed) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?)",
);
/// Follows of one batch: a handful of partitions, some kilobytes.
const BATCH_FOLLOWS: usize = 8;
/// Notes of one batch, all of one partition: far below 40 KiB.
const BATCH_NOTES: usize = 100;

impl Cql {
    pub(super) async fn import(&self, follows: &[ImportedFollow], now: Timestamp) -> Result<(), StoreError> {
        let mut since: BTreeMap<Edge, Timestamp> =
            follows.iter().rev().map(|follow| (follow.edge, follow.since)).collect();
        let edges: Vec<Edge> = since.keys().copied().collect();
        let there = self.follow_rows(&edges).await?;
        let mut ours = Vec::new();
        for row in there {
            let since = since.remove(&row.edge).unwrap_or(now);
            match row.state {
                // What an import that was cut short has left is made whole where it is.
                Some(state) if state.live && is_imported(state.version) => ours.push(row),
                Some(_) => {}
                // A seat that somebody has left.
                None => ours.push(FollowRow { state: Some(unwritten(since, now)), ..row }),
            }
        }
        ours.extend(self.seated(&since, now).await?);
        self.bring(&ours, now).await?;
        self.settle_import(ours).await
    }

    /// Where follows are put that are not there.
    async fn seated(
        &self,
        since: &BTreeMap<Edge, Timestamp>,
        now: Timestamp,
    ) -> Result<Vec<FollowRow>, StoreError> {
        self.learn_heads(since.keys().map(|edge| edge.from), FollowList::Following).await?;
        self.learn_heads(since.keys().map(|edge| edge.to), FollowList::Fans).await?;
        let mut seated = Vec::with_capacity(since.len());
        for (edge, since) in since {
            let in_following = self.bucket_for(edge.from, FollowList::Following).await?;
            let in_fans = self.bucket_for(edge.to, FollowList::Fans).await?;
            let seat = Seat { at: now.0, in_following, in_fans };
            let (state, brought) = (Some(unwritten(*since, now)), Some(seat));
            seated.push(FollowRow { edge: *edge, seat, is_decided: false, brought, state });
        }
        Ok(seated)
    }

    /// Asks where many lists go on, by few requests.
    async fn learn_heads(
        &self,
        owners: impl Iterator<Item = UserId>,
        list: FollowList,
    ) -> Result<(), StoreError> {
        let mut owners: Vec<i64> = owners.map(UserId::get).collect();
        owners.sort_unstable();
        owners.dedup();
        stream::iter(self.unknown_heads(owners, list))
            .map(|owners| self.read_heads(owners, list))
            .buffer_unordered(AT_A_TIME)
            .try_collect()
            .await
    }

    /// Writes rows, entries and notes.
    async fn bring(&self, rows: &[FollowRow], now: Timestamp) -> Result<(), StoreError> {
        let chunks: Vec<Vec<FollowRow>> = rows.chunks(BATCH_FOLLOWS).map(<[FollowRow]>::to_vec).collect();
        let written = stream::iter(chunks).map(|rows| self.bring_some(rows, now)).buffer_unordered(AT_A_TIME);
        let notes: Vec<Vec<Note>> = written.try_collect().await?;
        let mut shards: BTreeMap<(i32, i64), Vec<Bound>> = BTreeMap::new();
        for note in notes.into_iter().flatten() {
            shards.entry((self.shard(note.edge), note.minute)).or_default().push(note.part(self));
        }
        let timestamp = self.clock.micros();
        let batches: Vec<Vec<Bound>> = shards
            .into_values()
            .flat_map(|notes| notes.chunks(BATCH_NOTES).map(<[Bound]>::to_vec).collect::<Vec<_>>())
            .collect();
        stream::iter(batches)
            .map(|notes| self.batch(BatchType::Unlogged, notes, timestamp))
            .buffer_unordered(AT_A_TIME)
            .try_collect()
            .await
    }

    /// Writes some rows with their entries; tells what is to be noted of them.
    async fn bring_some(&self, rows: Vec<FollowRow>, now: Timestamp) -> Result<Vec<Note>, StoreError> {
        // As late as can be: of imports at once the first is to be the first one that writes.
        let fresh = self.clock.imported_version();
        let (mut parts, mut notes) = (Vec::new(), Vec::new());
        for row in rows {
            let Some(state) = row.state else { continue };
            if state.version == 0 {
                let state = State { version: fresh, ..state };
                parts.push(bring_part(row.edge, row.seat, state, now));
                if self.options.dies_at != Some("brought") {
                    parts.extend(entry_parts(row.edge, row.seat, state));
                }
                notes.push(Note::of_follow(self, row.edge, row.seat, fresh));
            } else {
                let entries = entry_parts(row.edge, row.seat, state).to_vec();
                self.batch(BatchType::Unlogged, entries, state.version).await?;
                notes.push(Note::of_follow(self, row.edge, row.seat, state.version));
            }
        }
        if !parts.is_empty() {
            self.batch(BatchType::Unlogged, parts, fresh).await?;
        }
        self.dies_at("brought")?;
        Ok(notes)
    }

    /// Strikes entries where the follow turned out to stand elsewhere.
    async fn settle_import(&self, ours: Vec<FollowRow>) -> Result<(), StoreError> {
        let edges: Vec<Edge> = ours.iter().map(|row| row.edge).collect();
        let now: BTreeMap<Edge, FollowRow> =
            self.follow_rows(&edges).await?.into_iter().map(|row| (row.edge, row)).collect();
        for before in ours {
            let Some(row) = now.get(&before.edge).filter(|row| row.seat != before.seat) else { continue };
            self.settle(row, before.seat, IMPORTED_MAX).await?;
        }
        Ok(())
    }
}

/// The state of a follow that is to be brought in; its version is given when it is written.
const fn unwritten(since: Timestamp, now: Timestamp) -> State {
    State { live: true, version: 0, since: since.0, changed: now.0 }
}

fn bring_part(edge: Edge, seat: Seat, state: State, now: Timestamp) -> Bound {
    let Seat { at, in_following, in_fans } = seat;
    let mut row = values![edge.from.get(), slice(edge), edge.to.get(), at, in_following, in_fans];
    row.extend(values![state.version, state.since, now.0]);
    Bound(&BRING, row)
}
