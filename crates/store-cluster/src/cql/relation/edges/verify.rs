//! Comparing follows with their entries in both lists, and entries with their follows.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{Edge, EdgeDifference, EdgeDifferenceKind, EdgesVerified, Follow, FollowList, StoreError};
use scylla::statement::batch::BatchType;

use super::scan_cursor::ScanCursor;
use crate::cql::{
    change_log::ChangeLogEntry,
    client::{
        row::NamedRow,
        session::{AT_A_TIME, Statement, values},
        version_clock::written,
    },
    relation::follow::{
        bucket::{LISTS, list_of, number},
        row::{FollowRow, ListSlot, State, edge_of, entry_key, entry_part, key},
    },
    stores::Cql,
};

const FOLLOWS: Statement = Statement::read(
    "SELECT edge, placed, in_following, in_fans, brought, brought_following, brought_fans, live, version, since, changed, \
     token(edge) AS ring FROM %k.follows LIMIT ?",
);
const FOLLOWS_AFTER: Statement = Statement::read(
    "SELECT edge, placed, in_following, in_fans, brought, brought_following, brought_fans, live, version, since, changed, \
     token(edge) AS ring FROM %k.follows WHERE token(edge) > token(?) LIMIT ?",
);
const ENTRIES: Statement = Statement::read(
    "SELECT owner, list, bucket, placed, other, live, version, since, token(owner, list, bucket) AS ring \
     FROM %k.follow_lists LIMIT ?",
);
const ENTRIES_IN: Statement = Statement::read(
    "SELECT owner, list, bucket, placed, other, live, version, since, token(owner, list, bucket) AS ring \
     FROM %k.follow_lists WHERE owner = ? AND list = ? AND bucket = ? AND (placed, other) < (?, ?) LIMIT ?",
);
const ENTRIES_AFTER: Statement = Statement::read(
    "SELECT owner, list, bucket, placed, other, live, version, since, token(owner, list, bucket) AS ring \
     FROM %k.follow_lists WHERE token(owner, list, bucket) > token(?, ?, ?) LIMIT ?",
);
const ENTRY: Statement = Statement::read(
    "SELECT live, version FROM %k.follow_lists WHERE owner = ? AND list = ? AND bucket = ? AND placed = ? AND other = ?",
);
/// A follow or entry that is younger may still be in progress, in microseconds.
const YOUNG: i64 = 10_000_000;

/// An entry in a list.
#[derive(Clone, Copy, Debug)]
struct StoredEntry {
    edge: Edge,
    list: FollowList,
    bucket: i32,
    state: State,
    at: i64,
}

impl Cql {
    /// Compares some follows with their entries.
    pub(in crate::cql) async fn verify_follows(
        &self,
        after: Option<Edge>,
        limit: usize,
        repair: bool,
    ) -> Result<EdgesVerified, StoreError> {
        let most = i32::try_from(limit.max(1)).unwrap_or(i32::MAX);
        let rows = match after {
            None => self.client.records(&FOLLOWS, values![most]).await?,
            Some(edge) => self.client.records(&FOLLOWS_AFTER, values![key(edge), most]).await?,
        };
        let mut found = Vec::new();
        for row in &rows {
            found.extend(FollowRow::of(edge_of(row)?, row)?);
        }
        let active = found.into_iter().filter(|row| row.is_live() && !self.is_young(row.version()));
        let active: Vec<_> = active.flat_map(|row| LISTS.map(|list| (row, list))).collect();
        let compared = stream::iter(active).map(|(row, list)| self.compare_follow(row, list, repair));
        let differences: Vec<_> = compared.buffer_unordered(AT_A_TIME).try_collect().await?;
        let (next, done) = match rows.last() {
            Some(last) if i32::try_from(rows.len()).is_ok_and(|read| read >= most) => {
                (ScanCursor::Follow(edge_of(last)?), ring_fraction(last.some_number("ring")?) / 2.0)
            }
            _ => (ScanCursor::Entries, 0.5),
        };
        let (checked, differences) = (rows.len() as u64, differences.into_iter().flatten().collect());
        Ok(EdgesVerified { checked, differences, done, next: Some(next.written()) })
    }

    /// Compares some entries with their follows.
    pub(in crate::cql) async fn verify_entries(
        &self,
        after: Option<[i64; 5]>,
        limit: usize,
        repair: bool,
    ) -> Result<EdgesVerified, StoreError> {
        let most = i32::try_from(limit.max(1)).unwrap_or(i32::MAX);
        let rows = self.entries_after(after, most).await?;
        let entries: Vec<StoredEntry> = rows.iter().map(StoredEntry::of).collect::<Result<_, _>>()?;
        let live: Vec<StoredEntry> = entries
            .into_iter()
            .filter(|entry| entry.state.live && !self.is_young(entry.state.version))
            .collect();
        let edges: Vec<Edge> = live.iter().map(|entry| entry.edge).collect();
        let mut follows = self.follow_rows(&edges).await?;
        follows.sort_unstable_by_key(|row| row.edge);
        let follow_of = |edge: Edge| {
            let at = follows.binary_search_by_key(&edge, |row| row.edge).ok()?;
            follows.get(at).copied()
        };
        let strays = live.into_iter().filter(|entry| !entry.is_slot_of(follow_of(entry.edge)));
        let compared = stream::iter(strays).map(|entry| self.compare_entry(entry, repair));
        let differences: Vec<_> = compared.buffer_unordered(AT_A_TIME).try_collect().await?;
        let (next, done) = match rows.last() {
            Some(last) if i32::try_from(rows.len()).is_ok_and(|read| read >= most) => {
                let names = ["owner", "list", "bucket", "placed", "other"];
                let mut place = [0; 5];
                for (number, name) in place.iter_mut().zip(names) {
                    *number = last.some_number(name)?;
                }
                let done = 0.5 + ring_fraction(last.some_number("ring")?) / 2.0;
                (Some(ScanCursor::Entry(place).written()), done)
            }
            _ => (None, 1.0),
        };
        let (checked, differences) = (rows.len() as u64, differences.into_iter().flatten().collect());
        Ok(EdgesVerified { checked, differences, done, next })
    }

    async fn entries_after(&self, after: Option<[i64; 5]>, most: i32) -> Result<Vec<NamedRow>, StoreError> {
        let Some([owner, list, bucket, placed, other]) = after else {
            return self.client.records(&ENTRIES, values![most]).await;
        };
        let (list, bucket) = (ScanCursor::small(list)?, ScanCursor::small(bucket)?);
        let mut rows =
            self.client.records(&ENTRIES_IN, values![owner, list, bucket, placed, other, most]).await?;
        let room = most - i32::try_from(rows.len()).unwrap_or(most);
        if room > 0 {
            rows.extend(self.client.records(&ENTRIES_AFTER, values![owner, list, bucket, room]).await?);
        }
        Ok(rows)
    }

    async fn compare_follow(
        &self,
        row: FollowRow,
        list: FollowList,
        repair: bool,
    ) -> Result<Option<EdgeDifference>, StoreError> {
        if self.is_shown(&row, list).await? {
            return Ok(None);
        }
        // The row may have changed since.
        let Some(row) = self.follow_row(row.edge).await? else { return Ok(None) };
        let Some(state) = row.state.filter(|state| state.live && !self.is_young(state.version)) else {
            return Ok(None);
        };
        if self.is_shown(&row, list).await? {
            return Ok(None);
        }
        if repair {
            self.restore_entry(&row, list, state, state.version).await?;
            if !self.is_shown(&row, list).await? {
                // Another program has deleted it, with a later timestamp.
                self.restore_entry(&row, list, state, self.client.clock.version(state.version)).await?;
            }
        }
        let kind = match list {
            FollowList::Following => EdgeDifferenceKind::NotInFollowing,
            FollowList::Fans => EdgeDifferenceKind::NotAmongFans,
        };
        Ok(Some(EdgeDifference { edge: row.edge, kind, repaired: repair }))
    }

    async fn restore_entry(
        &self,
        row: &FollowRow,
        list: FollowList,
        state: State,
        timestamp: i64,
    ) -> Result<(), StoreError> {
        let note = ChangeLogEntry::of_count(self, row.edge, row.slot).part(self);
        let parts = vec![entry_part(row.edge, list, row.slot, state), note];
        self.client.batch(BatchType::Logged, parts, timestamp).await
    }

    /// Whether the list shows the follow's present state.
    async fn is_shown(&self, row: &FollowRow, list: FollowList) -> Result<bool, StoreError> {
        let (owner, bucket, other) = entry_key(row.edge, list, row.slot);
        let asked = values![owner.get(), number(list), bucket, row.slot.at, other.get()];
        let found = self.client.records(&ENTRY, asked).await?;
        let Some(entry) = found.first() else { return Ok(false) };
        Ok(entry.number("live")? == Some(1) && entry.number("version")? == Some(row.version()))
    }

    async fn compare_entry(
        &self,
        entry: StoredEntry,
        repair: bool,
    ) -> Result<Option<EdgeDifference>, StoreError> {
        let row = self.follow_row(entry.edge).await?;
        if entry.is_slot_of(row) || row.is_some_and(|row| self.is_young(row.version())) {
            return Ok(None);
        }
        if repair {
            self.remove_entry(entry, row).await?;
        }
        let kind = match entry.list {
            FollowList::Following => EdgeDifferenceKind::StrayInFollowing,
            FollowList::Fans => EdgeDifferenceKind::StrayAmongFans,
        };
        Ok(Some(EdgeDifference { edge: entry.edge, kind, repaired: repair }))
    }

    /// Removes a follow's entries from the buckets in a list where it has no position.
    pub(in crate::cql) async fn remove_strays(
        &self,
        follow: &Follow,
        list: FollowList,
    ) -> Result<(), StoreError> {
        let (at, version) = (follow.placed.0, follow.version.get());
        let state = State { live: true, version, since: follow.since.0, changed: 0 };
        let (owner, other) = match list {
            FollowList::Following => (follow.edge.from, follow.edge.to),
            FollowList::Fans => (follow.edge.to, follow.edge.from),
        };
        let (head, _) = self.head(owner, list).await?;
        let row = self.follow_row(follow.edge).await?;
        for bucket in 0..=head {
            let asked = values![owner.get(), number(list), bucket, at, other.get()];
            let entry = StoredEntry { edge: follow.edge, list, bucket, state, at };
            if !self.client.records(&ENTRY, asked).await?.is_empty() && !entry.is_slot_of(row) {
                self.remove_entry(entry, row).await?;
            }
        }
        Ok(())
    }

    async fn remove_entry(&self, entry: StoredEntry, row: Option<FollowRow>) -> Result<(), StoreError> {
        let version = entry.state.version.max(row.map_or(0, |row| row.version())) + 1;
        let ended = State { live: false, version, ..entry.state };
        let slot = ListSlot { at: entry.at, in_following: entry.bucket, in_fans: entry.bucket };
        for timestamp in [version, self.client.clock.version(version)] {
            // The note names the same bucket for both lists: a superfluous count does no harm.
            let note = ChangeLogEntry::of_count(self, entry.edge, slot).part(self);
            let parts = vec![entry_part(entry.edge, entry.list, slot, ended), note];
            self.client.batch(BatchType::Logged, parts, timestamp).await?;
            let (owner, bucket, other) = entry_key(entry.edge, entry.list, slot);
            let asked = values![owner.get(), number(entry.list), bucket, entry.at, other.get()];
            let left = self.client.records(&ENTRY, asked).await?;
            if left.first().is_none_or(|left| !matches!(left.number("live"), Ok(Some(1)))) {
                return Ok(());
            }
            // Another program has written it, with a later timestamp.
        }
        Ok(())
    }

    fn is_young(&self, version: i64) -> bool {
        written(version) > self.client.clock.micros() - YOUNG
    }
}

impl StoredEntry {
    fn of(row: &NamedRow) -> Result<Self, StoreError> {
        let (owner, other) = (row.user("owner")?, row.user("other")?);
        let list = list_of(row.small("list")?);
        let state = State {
            live: row.number("live")? == Some(1),
            version: row.number("version")?.unwrap_or_default(),
            since: row.number("since")?.unwrap_or_default(),
            changed: 0,
        };
        Ok(Self {
            edge: list.edge(owner, other),
            list,
            bucket: row.small("bucket")?,
            state,
            at: row.some_number("placed")?,
        })
    }

    /// Whether this is the follow's position, and the follow is active.
    fn is_slot_of(&self, row: Option<FollowRow>) -> bool {
        row.is_some_and(|row| {
            let (_, bucket, _) = entry_key(row.edge, self.list, row.slot);
            row.is_live() && (bucket, row.slot.at) == (self.bucket, self.at)
        })
    }
}

/// The fraction of the token ring up to this token.
#[expect(clippy::cast_precision_loss, reason = "about")]
pub(in crate::cql) fn ring_fraction(token: i64) -> f64 {
    (token as f64 + 9_223_372_036_854_775_808.0) / 18_446_744_073_709_551_616.0
}
