//! Pages of the lists of follows. Buckets are walked from the newest down. What two buckets hold may overlap in time, by as
//! long as writers may believe an older one to be the newest; until that has passed, and what a bucket holds was counted
//! after, it is looked at for every page.

use kith_store::{Follow, FollowList, Place, StoreError, Timestamp, UserId, Version};

use super::{
    bucket::number,
    error::malformed,
    session::{Cql, Statement, values},
};

const BUCKETS: Statement = Statement::read(
    "SELECT bucket, opened, oldest, newest, counted FROM %k.follow_buckets WHERE owner = ? AND list = ?",
);
const FIRST: Statement = Statement::read(
    "SELECT placed, other, version, since FROM %k.follow_lists \
     WHERE owner = ? AND list = ? AND bucket = ? AND live = 1 LIMIT ? ALLOW FILTERING",
);
const AFTER: Statement = Statement::read(
    "SELECT placed, other, version, since FROM %k.follow_lists \
     WHERE owner = ? AND list = ? AND bucket = ? AND (placed, other) < (?, ?) AND live = 1 LIMIT ? ALLOW FILTERING",
);

/// What a page has to know of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    number: i32,
    /// Between which places everything in it stands; `None`: not known for good.
    bounds: Option<(i64, i64)>,
}

impl Bucket {
    /// Whether nothing in it comes after this place.
    fn ends_before(self, after: Option<Place>) -> bool {
        after.is_some_and(|after| self.bounds.is_some_and(|(oldest, _)| oldest > after.at.0))
    }

    /// Whether all in it comes after this entry.
    fn begins_after(self, last: &Follow) -> bool {
        self.bounds.is_some_and(|(_, newest)| newest < last.placed.0)
    }
}

impl Cql {
    /// The living entries of a list, the newest first, after a place.
    pub(super) async fn list_page(
        &self,
        owner: UserId,
        list: FollowList,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Follow>, StoreError> {
        let mut page: Vec<Follow> = Vec::new();
        if limit == 0 {
            return Ok(page);
        }
        for bucket in self.buckets(owner, list).await? {
            let is_full = page.len() == limit;
            if bucket.ends_before(after)
                || is_full && page.last().is_some_and(|last| bucket.begins_after(last))
            {
                continue;
            }
            page.extend(self.bucket_page(owner, list, bucket.number, after, limit).await?);
            page.sort_unstable_by_key(|follow| std::cmp::Reverse(follow.place_in(list)));
            page.truncate(limit);
        }
        Ok(page)
    }

    /// The buckets of a list, the newest first.
    async fn buckets(&self, owner: UserId, list: FollowList) -> Result<Vec<Bucket>, StoreError> {
        let rows = self.records(&BUCKETS, values![owner.get(), number(list)]).await?;
        let apart = i64::try_from(self.options.clocks_apart.as_millis()).unwrap_or(i64::MAX);
        let mut buckets = Vec::with_capacity(rows.len() + 1);
        let mut closed = i64::MAX;
        for row in &rows {
            let counted = row.number("counted")?;
            let is_final = counted.is_some_and(|counted| counted > closed.saturating_add(apart));
            let bounds = row.number("oldest")?.zip(row.number("newest")?).filter(|_| is_final);
            buckets.push(Bucket { number: row.small("bucket")?, bounds });
            closed = row.number("opened")?.unwrap_or(i64::MAX);
        }
        // What was never counted has no row.
        let lowest = buckets.last().map_or(1, |bucket| bucket.number);
        buckets.extend((0..lowest).rev().map(|number| Bucket { number, bounds: None }));
        Ok(buckets)
    }

    async fn bucket_page(
        &self,
        owner: UserId,
        list: FollowList,
        bucket: i32,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Follow>, StoreError> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let (owned, list_number) = (owner.get(), number(list));
        let rows = match after {
            None => self.read(&FIRST, values![owned, list_number, bucket, limit]).await?,
            Some(Place { at, user }) => {
                let after = values![owned, list_number, bucket, at.0, user.get(), limit];
                self.read(&AFTER, after).await?
            }
        };
        // Thousands at a time: decoded without names.
        let entries = rows.rows::<Entry>().map_err(|_| malformed("entry"))?;
        entries.map(|row| entry(owner, list, row.map_err(|_| malformed("entry"))?)).collect()
    }
}

/// When it took its place, whom it names, its version, and since when they follow.
type Entry = (i64, i64, i64, i64);

/// The follow that an entry of a list shows.
fn entry(
    owner: UserId,
    list: FollowList,
    (placed, other, version, since): Entry,
) -> Result<Follow, StoreError> {
    let other = UserId::new(other).map_err(|_| malformed("other"))?;
    let version = Version::new(version).ok_or_else(|| malformed("version"))?;
    let edge = list.edge(owner, other);
    Ok(Follow { edge, version, since: Timestamp(since), placed: Timestamp(placed) })
}
