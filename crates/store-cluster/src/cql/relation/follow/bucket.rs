//! List buckets, so that no partition grows without bound. A list begins with bucket 0; new entries go to the
//! highest opened bucket. A write without a condition opens a bucket: two writers that open the same bucket
//! do no harm. A bucket is opened only after the bucket below was counted and found nearly full, and entries
//! are never removed from a bucket. So if bucket 0 is not full, there is no other.

use std::collections::HashMap;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{FollowList, StoreError, UserId};

use super::bucket_cache::{BucketChoice, ListKey};
use crate::cql::{
    client::{
        error::malformed,
        session::{AT_A_TIME, Bound, Statement, values},
    },
    stores::Cql,
};

const HEAD: Statement =
    Statement::read("SELECT bucket, total FROM %k.follow_buckets WHERE owner = ? AND list = ? LIMIT 1");
const HEADS: Statement =
    Statement::read("SELECT owner, list, bucket, total FROM %k.follow_buckets WHERE owner IN ?");
/// The most users in one request.
const HEADS_MAX: usize = 50;
const OPEN: Statement =
    Statement::plain("INSERT INTO %k.follow_buckets (owner, list, bucket, opened) VALUES (?, ?, ?, ?)");

/// A user has both lists.
pub(in crate::cql) const LISTS: [FollowList; 2] = [FollowList::Following, FollowList::Fans];

/// A list's number in the tables.
pub(in crate::cql) const fn number(list: FollowList) -> i32 {
    match list {
        FollowList::Following => 0,
        FollowList::Fans => 1,
    }
}

/// The list that has this number.
pub(in crate::cql) const fn list_of(number: i32) -> FollowList {
    if number == 0 { FollowList::Following } else { FollowList::Fans }
}

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::cql) struct ListPart {
    pub(in crate::cql) owner: i64,
    pub(in crate::cql) list: i32,
    pub(in crate::cql) bucket: i32,
}

impl ListPart {
    pub(in crate::cql) fn owner(self) -> Result<UserId, StoreError> {
        UserId::new(self.owner).map_err(|_| malformed("owner"))
    }

    pub(in crate::cql) const fn list(self) -> FollowList {
        list_of(self.list)
    }
}

impl Cql {
    /// The bucket that a new list entry goes to. While a nearly full bucket is being counted, only a few new
    /// entries are let in, and the others wait: so it cannot grow without bound meanwhile.
    pub(in crate::cql) async fn bucket_for(
        &self,
        owner: UserId,
        list: FollowList,
    ) -> Result<i32, StoreError> {
        let key = (owner.get(), number(list));
        loop {
            let counted = self.heads.count_finished();
            match self.heads.reserve(key) {
                BucketChoice::In(bucket) => return Ok(bucket),
                BucketChoice::Count(bucket) => self.count_for(key, bucket).await?,
                BucketChoice::Counting => counted.await,
                BucketChoice::Unknown => {
                    let (bucket, counted) = self.head(owner, list).await?;
                    if !self.heads.learn(key, bucket, counted) {
                        return Ok(bucket);
                    }
                }
            }
        }
    }

    /// Counts a bucket and, if it is full, opens the next.
    async fn count_for(&self, key: ListKey, bucket: i32) -> Result<(), StoreError> {
        let counting = self.heads.begin_count(key, bucket);
        let (owner, list) = key;
        let part = ListPart { owner, list, bucket };
        let entries = self.count(part, 0).await?.entries;
        if entries < self.heads.full() {
            counting.finish_with_room(entries);
            return Ok(());
        }
        self.open_bucket(part.owner()?, part.list(), bucket + 1).await?;
        counting.finish_with_next_opened();
        Ok(())
    }

    /// Reads the head buckets for these users' lists, with few requests, if they are not known.
    pub(in crate::cql) async fn learn_heads(
        &self,
        owners: impl Iterator<Item = UserId>,
    ) -> Result<(), StoreError> {
        let mut owners: Vec<i64> = owners.map(UserId::get).collect();
        owners.sort_unstable();
        owners.dedup();
        stream::iter(self.unknown_heads(owners))
            .map(|owners| self.read_heads(owners))
            .buffer_unordered(AT_A_TIME)
            .try_collect()
            .await
    }

    /// The users without known head buckets for both lists, in groups for [`Self::read_heads`].
    fn unknown_heads(&self, mut owners: Vec<i64>) -> Vec<Vec<i64>> {
        owners.retain(|owner| !LISTS.into_iter().all(|list| self.heads.knows((*owner, number(list)))));
        owners.chunks(HEADS_MAX).map(<[i64]>::to_vec).collect()
    }

    /// Reads and remembers the head buckets for both lists of these users.
    async fn read_heads(&self, asked: Vec<i64>) -> Result<(), StoreError> {
        let lists = |owner| LISTS.map(|list| ((owner, number(list)), (0, 0)));
        let mut heads: HashMap<ListKey, (i32, i64)> = asked.iter().copied().flat_map(lists).collect();
        for row in self.client.records(&HEADS, values![asked]).await? {
            let head = (row.small("bucket")?, row.number("total")?.unwrap_or_default());
            let known = heads.entry((row.some_number("owner")?, row.small("list")?)).or_default();
            *known = (*known).max(head);
        }
        for (key, (bucket, counted)) in heads {
            self.heads.learn(key, bucket, counted);
        }
        Ok(())
    }

    /// The highest bucket, and how many entries were counted in it.
    pub(in crate::cql) async fn head(
        &self,
        owner: UserId,
        list: FollowList,
    ) -> Result<(i32, i64), StoreError> {
        let rows = self.client.records(&HEAD, values![owner.get(), number(list)]).await?;
        let Some(row) = rows.first() else { return Ok((0, 0)) };
        Ok((row.small("bucket")?, row.number("total")?.unwrap_or_default()))
    }

    /// Opens this bucket for new entries.
    pub(in crate::cql) async fn open_bucket(
        &self,
        owner: UserId,
        list: FollowList,
        bucket: i32,
    ) -> Result<(), StoreError> {
        let row = values![owner.get(), number(list), bucket, self.client.clock.millis()];
        self.client.write(Bound(&OPEN, row), None).await
    }
}
