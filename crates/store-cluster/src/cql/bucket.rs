//! The parts of lists, so that none grows without end. A list begins with bucket 0; the highest one that was opened takes
//! what is new. To open one is a plain write, as two that open the same do no harm. None is opened before the one below was
//! counted and found full, and nothing is ever taken out of one: where bucket 0 is not full, there is no other.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use kith_store::{FollowList, StoreError, UserId};
use parking_lot::Mutex;

use super::{
    count::Part,
    session::{Bound, Cql, Statement, values},
};

/// With a write that takes long, and clocks that are a minute apart, below the two minutes (`clocks_apart`) after which a bucket
/// that is not the newest one counts as closed.
const KEPT: Duration = Duration::from_secs(45);
/// Of some 50 bytes each.
const LISTS_MAX: usize = 262_144;
/// So small a part of a full bucket may be put into it while it is being counted.
const BEYOND: i64 = 16;
/// To look through all of them takes milliseconds.
const THINNED_EVERY: Duration = Duration::from_secs(1);

const HEAD: Statement =
    Statement::read("SELECT bucket, total FROM %k.follow_buckets WHERE owner = ? AND list = ? LIMIT 1");
const HEADS: Statement =
    Statement::read("SELECT owner, list, bucket, total FROM %k.follow_buckets WHERE owner IN ?");
/// Users of one request.
const HEADS_MAX: usize = 50;
const OPEN: Statement =
    Statement::plain("INSERT INTO %k.follow_buckets (owner, list, bucket, opened) VALUES (?, ?, ?, ?)");

/// Both lists of a user.
pub(super) const LISTS: [FollowList; 2] = [FollowList::Following, FollowList::Fans];

/// The number of a list in the tables.
pub(super) const fn number(list: FollowList) -> i32 {
    match list {
        FollowList::Following => 0,
        FollowList::Fans => 1,
    }
}

/// The list that has this number.
pub(super) const fn list_of(number: i32) -> FollowList {
    if number == 0 { FollowList::Following } else { FollowList::Fans }
}

/// What this node knows of where lists go on. It may be some seconds behind: what is put into an older bucket stands there as
/// well.
#[derive(Debug)]
pub(super) struct Heads {
    entries_max: i64,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    heads: HashMap<(i64, i32), Head>,
    /// When those that are too old were last taken out for want of room.
    thinned: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    bucket: i32,
    room: i64,
    until: Instant,
}

impl Heads {
    pub(super) fn new(entries_max: u32) -> Self {
        Self { entries_max: i64::from(entries_max), known: Mutex::default() }
    }

    /// The bucket for one more entry, where it is known, and whether it has room. Who hears that it has none is to count it,
    /// and of many who ask at once one hears so: the others go on meanwhile.
    fn take(&self, key: (i64, i32)) -> Option<(i32, bool)> {
        let mut known = self.known.lock();
        let head = known.heads.get_mut(&key).filter(|head| head.until > Instant::now())?;
        let has_room = head.room > 0;
        head.room = if has_room { head.room - 1 } else { self.entries_max / BEYOND };
        Some((head.bucket, has_room))
    }

    fn put(&self, key: (i64, i32), bucket: i32, room: i64) {
        let now = Instant::now();
        let mut known = self.known.lock();
        if known.heads.len() >= LISTS_MAX
            && known.thinned.is_none_or(|at| now.duration_since(at) > THINNED_EVERY)
        {
            known.heads.retain(|_, head| head.until > now);
            known.thinned = Some(now);
        }
        if known.heads.len() < LISTS_MAX {
            known.heads.insert(key, Head { bucket, room, until: now + KEPT });
        }
    }
}

impl Cql {
    /// The bucket that a new entry of the list goes to.
    pub(super) async fn bucket_for(&self, owner: UserId, list: FollowList) -> Result<i32, StoreError> {
        let key = (owner.get(), number(list));
        let most = self.heads.entries_max;
        let (bucket, room) = match self.heads.take(key) {
            Some((bucket, true)) => return Ok(bucket),
            // Not all the room that was taken was used: of a follow that stands already, none.
            Some((bucket, false)) => (bucket, most - self.entries_in(key, bucket).await?),
            None => self.head(owner, list).await.map(|(bucket, counted)| (bucket, most - counted))?,
        };
        if room > 0 {
            self.heads.put(key, bucket, room - 1);
            return Ok(bucket);
        }
        self.open_bucket(owner, list, bucket + 1).await?;
        self.heads.put(key, bucket + 1, most - 1);
        Ok(bucket + 1)
    }

    async fn entries_in(&self, (owner, list): (i64, i32), bucket: i32) -> Result<i64, StoreError> {
        Ok(self.count(Part { owner, list, bucket }, 0).await?.entries)
    }

    /// Those of the users of whom it is not known where both lists go on, in groups for [`Self::read_heads`].
    pub(super) fn unknown_heads(&self, mut owners: Vec<i64>) -> Vec<Vec<i64>> {
        let now = Instant::now();
        let known = self.heads.known.lock();
        let is_known = |key| known.heads.get(&key).is_some_and(|head| head.until > now);
        owners.retain(|owner| !LISTS.into_iter().all(|list| is_known((*owner, number(list)))));
        owners.chunks(HEADS_MAX).map(<[i64]>::to_vec).collect()
    }

    /// Reads and remembers where both lists of these users go on.
    pub(super) async fn read_heads(&self, asked: Vec<i64>) -> Result<(), StoreError> {
        let lists = |owner| LISTS.map(|list| ((owner, number(list)), (0, 0)));
        let mut heads: HashMap<(i64, i32), (i32, i64)> = asked.iter().copied().flat_map(lists).collect();
        for row in self.records(&HEADS, values![asked]).await? {
            let head = (row.small("bucket")?, row.number("total")?.unwrap_or_default());
            let known = heads.entry((row.some_number("owner")?, row.small("list")?)).or_default();
            *known = (*known).max(head);
        }
        for (key, (bucket, counted)) in heads {
            self.heads.put(key, bucket, self.heads.entries_max - counted);
        }
        Ok(())
    }

    /// The highest bucket, and how many entries were counted in it.
    pub(super) async fn head(&self, owner: UserId, list: FollowList) -> Result<(i32, i64), StoreError> {
        let rows = self.records(&HEAD, values![owner.get(), number(list)]).await?;
        let Some(row) = rows.first() else { return Ok((0, 0)) };
        Ok((row.small("bucket")?, row.number("total")?.unwrap_or_default()))
    }

    /// Lets new entries go to this bucket.
    pub(super) async fn open_bucket(
        &self,
        owner: UserId,
        list: FollowList,
        bucket: i32,
    ) -> Result<(), StoreError> {
        let row = values![owner.get(), number(list), bucket, self.clock.millis()];
        self.write(Bound(&OPEN, row), None).await
    }
}
