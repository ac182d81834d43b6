//! Pages in follow lists. A list's buckets are read from the newest to the oldest. Two buckets may overlap in
//! time: after a bucket is opened, some writers may still use the bucket before for a while (`clocks_apart`).
//! A bucket's bounds are certain if it was counted after that time. Until then it is read for every page.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{Follow, FollowList, ListPosition, StoreError, Timestamp, UserId, Version, millis};

use scylla::deserialize::row::DeserializeRow;

use super::bucket::number;
use crate::cql::{
    client::{
        error::malformed,
        session::{Statement, values},
    },
    stores::Cql,
};

const BUCKETS: Statement = Statement::read(
    "SELECT bucket, opened, oldest, newest, counted FROM %k.follow_buckets WHERE owner = ? AND list = ?",
);
const AFTER: Statement = Statement::read(
    "SELECT placed, other, live, version, since FROM %k.follow_lists \
     WHERE owner = ? AND list = ? AND bucket = ? AND (placed, other) < (?, ?) LIMIT ?",
);
/// Filters ended entries at the server; more expensive for each row than [`AFTER`], especially if several
/// replicas have to agree on what is filtered.
const LIVE_AFTER: Statement = Statement::read(
    "SELECT placed, other, live, version, since FROM %k.follow_lists \
     WHERE owner = ? AND list = ? AND bucket = ? AND (placed, other) < (?, ?) AND live = 1 LIMIT ? ALLOW FILTERING",
);
/// Columns that are not requested cost the server nothing: two columns out of five take a quarter of the
/// time.
const POSITIONS_AFTER: Statement = Statement::read(
    "SELECT placed, other, live FROM %k.follow_lists \
     WHERE owner = ? AND list = ? AND bucket = ? AND (placed, other) < (?, ?) LIMIT ?",
);
const LIVE_POSITIONS_AFTER: Statement = Statement::read(
    "SELECT placed, other, live FROM %k.follow_lists \
     WHERE owner = ? AND list = ? AND bucket = ? AND (placed, other) < (?, ?) AND live = 1 LIMIT ? ALLOW FILTERING",
);
/// Most lists have only this bucket.
const LOWEST: i32 = 0;
/// A first page with at least this size contains most lists completely, so the buckets are read only if it
/// does not.
const LARGE_PAGE: usize = 1_000;
/// Buckets that are read concurrently, a page from each.
const AT_ONCE: usize = 8;

/// A bucket, and its entries' positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    number: i32,
    /// The positions between which all its entries are; `None`: not certain.
    bounds: Option<(i64, i64)>,
}

impl Bucket {
    /// Whether it has no entry after this position.
    fn ends_before(self, after: Option<ListPosition>) -> bool {
        after.is_some_and(|after| self.bounds.is_some_and(|(oldest, _)| oldest > after.at.0))
    }

    /// Whether it has to be read for a page after this position: its bounds are not known, or they include
    /// the position.
    fn must_be_read(self, after: Option<ListPosition>) -> bool {
        let is_within = |(oldest, newest)| after.is_some_and(|after| (oldest..=newest).contains(&after.at.0));
        self.bounds.is_none_or(is_within)
    }

    /// Whether all its entries are after this position.
    fn begins_after(self, last: ListPosition) -> bool {
        self.bounds.is_some_and(|(_, newest)| newest < last.at.0)
    }
}

/// A list and its owner.
#[derive(Clone, Copy)]
pub(in crate::cql) struct OwnedList {
    owner: UserId,
    list: FollowList,
}

/// The columns that are read from a list entry.
pub(in crate::cql) trait ListEntry: Clone + Send + Sync {
    /// The requested columns.
    type Columns: for<'a, 'b> DeserializeRow<'a, 'b>;
    /// Reads entries after a position.
    const AFTER: &'static Statement;
    /// Like `AFTER`, but for active entries.
    const LIVE_AFTER: &'static Statement;

    /// Whether the entry is active, and the entry.
    fn of(of: OwnedList, columns: Self::Columns) -> Result<(bool, Self), StoreError>;

    fn place_in(&self, list: FollowList) -> ListPosition;
}

impl ListEntry for Follow {
    /// The position, the other user, whether the entry is active, its version, and since when they follow.
    type Columns = (i64, i64, i32, i64, i64);
    const AFTER: &'static Statement = &AFTER;
    const LIVE_AFTER: &'static Statement = &LIVE_AFTER;

    fn of(of: OwnedList, columns: Self::Columns) -> Result<(bool, Self), StoreError> {
        let (placed, other, live, version, since) = columns;
        let (live, place) = ListPosition::of(of, (placed, other, live))?;
        let version = Version::new(version).ok_or_else(|| malformed("version"))?;
        let edge = of.list.edge(of.owner, place.user);
        Ok((live, Self { edge, version, since: Timestamp(since), placed: place.at }))
    }

    fn place_in(&self, list: FollowList) -> ListPosition {
        Self::position_in(self, list)
    }
}

impl ListEntry for ListPosition {
    type Columns = (i64, i64, i32);
    const AFTER: &'static Statement = &POSITIONS_AFTER;
    const LIVE_AFTER: &'static Statement = &LIVE_POSITIONS_AFTER;

    fn of(_: OwnedList, columns: Self::Columns) -> Result<(bool, Self), StoreError> {
        let (placed, other, live) = columns;
        let user = UserId::new(other).map_err(|_| malformed("other"))?;
        Ok((live != 0, Self { at: Timestamp(placed), user }))
    }

    fn place_in(&self, _: FollowList) -> ListPosition {
        *self
    }
}

/// Entries read from a bucket.
struct EntriesRead<E> {
    /// The active entries.
    entries: Vec<E>,
    /// How many were read, including ended entries.
    count: usize,
    /// The last entry's position.
    last: Option<ListPosition>,
}

impl Cql {
    /// Reads a list's active entries, the newest first, after a position.
    pub(in crate::cql) async fn list_page<E: ListEntry>(
        &self,
        owner: UserId,
        list: FollowList,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<E>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let of = OwnedList { owner, list };
        if after.is_some() {
            let buckets = self.buckets(owner, list).await?;
            return self.page_of(of, &buckets, after, limit).await;
        }
        let lowest = self.bucket_page(of, LOWEST, None, limit);
        let (buckets, page) = if limit < LARGE_PAGE {
            let (buckets, (page, _)) = tokio::try_join!(self.buckets(owner, list), lowest)?;
            (buckets, page)
        } else {
            let (page, read) = lowest.await?;
            if read < limit && read < self.full() {
                return Ok(page);
            }
            (self.buckets(owner, list).await?, page)
        };
        // Most lists have no more.
        if let [Bucket { number: LOWEST, .. }] = buckets[..] {
            return Ok(page);
        }
        self.page_of(of, &buckets, None, limit).await
    }

    /// How many entries the lowest bucket has before there is another bucket.
    fn full(&self) -> usize {
        usize::try_from(self.heads.full()).unwrap_or_default()
    }

    /// Like `list_page`, but for a list in these buckets. Buckets that have to be read anyway are read
    /// concurrently, so that a page deep in the list takes no longer than the first page.
    async fn page_of<E: ListEntry>(
        &self,
        of: OwnedList,
        buckets: &[Bucket],
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<E>, StoreError> {
        let (to_read, others): (Vec<Bucket>, Vec<Bucket>) =
            buckets.iter().partition(|bucket| bucket.must_be_read(after));
        let mut page = stream::iter(to_read)
            .map(|bucket| self.bucket_page(of, bucket.number, after, limit))
            .buffer_unordered(AT_ONCE)
            .try_fold(Vec::new(), async |page, (entries, _)| Ok(merged(page, entries, of.list, limit)))
            .await?;
        for bucket in others {
            let is_full = page.len() == limit;
            if bucket.ends_before(after)
                || is_full && page.last().is_some_and(|last: &E| bucket.begins_after(last.place_in(of.list)))
            {
                continue;
            }
            let (entries, _) = self.bucket_page(of, bucket.number, after, limit).await?;
            page = merged(page, entries, of.list, limit);
        }
        Ok(page)
    }

    /// Reads a list's buckets, the newest first.
    async fn buckets(&self, owner: UserId, list: FollowList) -> Result<Vec<Bucket>, StoreError> {
        let rows = self.client.records(&BUCKETS, values![owner.get(), number(list)]).await?;
        let apart = millis(self.client.options.clocks_apart);
        let mut buckets = Vec::with_capacity(rows.len() + 1);
        let mut closed = i64::MAX;
        for row in &rows {
            let counted = row.number("counted")?;
            let is_final = counted.is_some_and(|counted| counted > closed.saturating_add(apart));
            let bounds = row.number("oldest")?.zip(row.number("newest")?).filter(|_| is_final);
            buckets.push(Bucket { number: row.small("bucket")?, bounds });
            closed = row.number("opened")?.unwrap_or(i64::MAX);
        }
        // A bucket that was never counted has no row.
        let lowest = buckets.last().map_or(1, |bucket| bucket.number);
        buckets.extend((0..lowest).rev().map(|number| Bucket { number, bounds: None }));
        Ok(buckets)
    }

    /// A bucket's active entries after a position, up to the limit, and how many entries the first read
    /// returned, with ended entries. If ended entries leave the page short, a second read with the filter
    /// returns the rest.
    async fn bucket_page<E: ListEntry>(
        &self,
        of: OwnedList,
        bucket: i32,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<(Vec<E>, usize), StoreError> {
        let EntriesRead { entries, count, last } = self.entries(E::AFTER, of, bucket, after, limit).await?;
        let missing = limit - entries.len();
        let Some(last) = last.filter(|_| missing > 0 && count == limit) else { return Ok((entries, count)) };
        let rest = self.entries(E::LIVE_AFTER, of, bucket, Some(last), missing).await?;
        Ok(([entries, rest.entries].concat(), count))
    }

    /// Reads at most `limit` entries in a bucket after a position.
    async fn entries<E: ListEntry>(
        &self,
        statement: &'static Statement,
        of: OwnedList,
        bucket: i32,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<EntriesRead<E>, StoreError> {
        let rows_max = i32::try_from(limit).unwrap_or(i32::MAX);
        // No position means a position before every entry.
        let (at, user) = after.map_or((i64::MAX, i64::MAX), |after| (after.at.0, after.user.get()));
        let asked = values![of.owner.get(), number(of.list), bucket, at, user, rows_max];
        let rows = self.client.read(statement, asked).await?;
        // Thousands at a time: decoded without names.
        let rows = rows.rows::<E::Columns>().map_err(|_| malformed("entry"))?;
        let mut read =
            EntriesRead { entries: Vec::with_capacity(rows.rows_remaining()), count: 0, last: None };
        for row in rows {
            let (live, entry) = E::of(of, row.map_err(|_| malformed("entry"))?)?;
            (read.count, read.last) = (read.count + 1, Some(entry.place_in(of.list)));
            read.entries.extend(live.then_some(entry));
        }
        Ok(read)
    }
}

/// Merges both and keeps the first entries.
fn merged<E: ListEntry>(mut page: Vec<E>, entries: Vec<E>, list: FollowList, limit: usize) -> Vec<E> {
    page.extend(entries);
    page.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.place_in(list)));
    page.truncate(limit);
    page
}
