//! The head buckets of lists, as this node knows them. It may be some seconds old, because an entry in an
//! older bucket is found, too.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::{Notify, futures::Notified};

/// How long a head is used after it was read. Together with a slow write, and clocks that differ by a minute,
/// this is below the two minutes (`clocks_apart`) after which a bucket that is not the newest one counts as
/// closed.
const KEPT: Duration = Duration::from_secs(45);
/// About 50 bytes each.
const LISTS_MAX: usize = 262_144;
/// Expired heads are removed at most this often, because a scan over all heads takes milliseconds.
const REMOVAL_EVERY: Duration = Duration::from_secs(1);
/// This fraction of a bucket is reserved for entries that arrive while it is being counted.
const RESERVE: i64 = 8;
/// A bucket with fewer than this many reserves left counts as full. With two, if one is taken meanwhile, it
/// would be counted again at once.
const FULL_RESERVES: i64 = 3;

/// A list: its owner, and its number.
pub(in crate::cql) type ListKey = (i64, i32);

/// The bucket for a new entry, or the reason why there is none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cql) enum BucketChoice {
    In(i32),
    /// There is no place yet: the caller has to count this bucket first.
    Count(i32),
    /// There is no place yet: another caller is counting.
    Counting,
    /// The list's head is not known, or was read too long ago.
    Unknown,
}

#[derive(Debug)]
pub(in crate::cql) struct BucketCache {
    entries_max: i64,
    known: Mutex<KnownHeads>,
    counted: Notify,
}

#[derive(Debug, Default)]
struct KnownHeads {
    heads: HashMap<ListKey, HeadBucket>,
    /// When expired heads were last removed to make room.
    last_removal: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct HeadBucket {
    bucket: i32,
    /// How many more entries it takes, at least: a follow that exists already reserves a place and does not
    /// use it.
    room: i64,
    until: Instant,
    is_counted: bool,
}

impl BucketCache {
    pub(in crate::cql) fn new(entries_max: u32) -> Self {
        Self { entries_max: i64::from(entries_max), known: Mutex::default(), counted: Notify::new() }
    }

    /// How many entries a bucket has before the next bucket may be opened.
    pub(in crate::cql) const fn full(&self) -> i64 {
        self.entries_max - self.reserve_size() * FULL_RESERVES
    }

    /// Reserves a place for one entry. If few are left, one caller has to count and the others use the
    /// reserve.
    pub(in crate::cql) fn reserve(&self, key: ListKey) -> BucketChoice {
        let mut known = self.known.lock();
        let Some(head) = known.heads.get_mut(&key).filter(|head| head.until > Instant::now()) else {
            return BucketChoice::Unknown;
        };
        if head.room <= self.reserve_size() && !head.is_counted {
            head.is_counted = true;
            return BucketChoice::Count(head.bucket);
        }
        if head.room <= 0 {
            return BucketChoice::Counting;
        }
        head.room -= 1;
        BucketChoice::In(head.bucket)
    }

    /// Completes when some bucket was counted, also if that happens before it is awaited.
    pub(in crate::cql) fn count_finished(&self) -> Notified<'_> {
        self.counted.notified()
    }

    /// Remembers the highest bucket, and how many entries were counted in it. `false`: there is no room for
    /// it.
    pub(in crate::cql) fn learn(&self, key: ListKey, bucket: i32, counted: i64) -> bool {
        let (now, room) = (Instant::now(), self.entries_max - counted);
        let mut known = self.known.lock();
        if let Some(head) = known.heads.get_mut(&key) {
            head.learn(bucket, room, now);
            return true;
        }
        known.remove_expired(now);
        let has_room = known.heads.len() < LISTS_MAX;
        if has_room {
            known.heads.insert(key, HeadBucket { bucket, room, until: now + KEPT, is_counted: false });
        }
        has_room
    }

    /// Whether the list's head is known.
    pub(in crate::cql) fn knows(&self, key: ListKey) -> bool {
        self.known.lock().heads.get(&key).is_some_and(|head| head.until > Instant::now())
    }

    /// Begins the count for the caller that got [`BucketChoice::Count`]. If it drops this without a result,
    /// another caller counts.
    pub(in crate::cql) fn begin_count(&self, key: ListKey, bucket: i32) -> CountInProgress<'_> {
        let room = self.known.lock().heads.get(&key).map_or(0, |head| head.room);
        CountInProgress { heads: self, key, bucket, room }
    }

    const fn reserve_size(&self) -> i64 {
        self.entries_max / RESERVE
    }
}

impl KnownHeads {
    fn remove_expired(&mut self, now: Instant) {
        let is_due = self.last_removal.is_none_or(|at| now.duration_since(at) > REMOVAL_EVERY);
        if self.heads.len() >= LISTS_MAX && is_due {
            self.heads.retain(|_, head| head.until > now);
            self.last_removal = Some(now);
        }
    }
}

impl HeadBucket {
    /// Never goes back to a lower bucket, because this node may have opened the higher bucket. If the bucket
    /// is the same, the lower room counts, because the count may lack this node's entries.
    fn learn(&mut self, bucket: i32, room: i64, now: Instant) {
        if bucket > self.bucket {
            (self.bucket, self.room, self.is_counted) = (bucket, room, false);
        } else if bucket == self.bucket {
            self.room = self.room.min(room);
        }
        self.until = now + KEPT;
    }
}

/// A count in progress.
#[derive(Debug)]
pub(in crate::cql) struct CountInProgress<'a> {
    heads: &'a BucketCache,
    key: ListKey,
    bucket: i32,
    /// The bucket's room when the count began.
    room: i64,
}

impl CountInProgress<'_> {
    /// The next bucket is open.
    pub(in crate::cql) fn finish_with_next_opened(self) {
        let room = self.heads.entries_max;
        self.at_head(|head, counting| (head.bucket, head.room) = (counting.bucket + 1, room));
    }

    /// There is room left. Places that were taken meanwhile may not have been counted.
    pub(in crate::cql) fn finish_with_room(self, entries: i64) {
        let room = self.heads.entries_max - entries;
        self.at_head(|head, counting| head.room = room - (counting.room - head.room));
    }

    /// Changes the head, unless this node knows about another head by now.
    fn at_head(&self, change: impl FnOnce(&mut HeadBucket, &Self)) {
        let mut known = self.heads.known.lock();
        if let Some(head) = known.heads.get_mut(&self.key).filter(|head| head.bucket == self.bucket) {
            change(head, self);
            head.is_counted = false;
        }
    }
}

impl Drop for CountInProgress<'_> {
    fn drop(&mut self) {
        self.at_head(|_, _| ());
        self.heads.counted.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const KEY: ListKey = (1, 0);
    const MAX: u32 = 80;

    /// Heads with a list in whose bucket 3 this many entries were counted.
    fn heads(counted: i64) -> BucketCache {
        let heads = BucketCache::new(MAX);
        assert!(heads.learn(KEY, 3, counted));
        heads
    }

    /// Reserves until the choice is another: returns how many got a place, and that choice.
    fn reserve_all(heads: &BucketCache) -> (usize, BucketChoice) {
        let choices = std::iter::repeat_with(|| heads.reserve(KEY));
        let mut in_place = 0;
        for choice in choices.take(1_000) {
            if !matches!(choice, BucketChoice::In(_)) {
                return (in_place, choice);
            }
            in_place += 1;
        }
        (in_place, heads.reserve(KEY))
    }

    #[test]
    fn one_caller_counts_and_few_enter_meanwhile() {
        let heads = heads(0);
        assert_eq!(heads.reserve((2, 0)), BucketChoice::Unknown);
        assert_eq!(reserve_all(&heads), (70, BucketChoice::Count(3)));
        assert_eq!(reserve_all(&heads), (10, BucketChoice::Counting));
    }

    #[test]
    fn waiter_is_notified_when_next_bucket_opens() {
        let heads = heads(70);
        assert_eq!(heads.reserve(KEY), BucketChoice::Count(3));
        let counting = heads.begin_count(KEY, 3);
        let counted = heads.count_finished();
        assert_eq!(reserve_all(&heads), (10, BucketChoice::Counting));
        counting.finish_with_next_opened();
        assert_eq!(counted.now_or_never(), Some(()));
        assert_eq!(heads.reserve(KEY), BucketChoice::In(4));
    }

    #[test]
    fn entries_taken_during_count_reduce_room() {
        let heads = heads(70);
        assert_eq!(heads.reserve(KEY), BucketChoice::Count(3));
        let counting = heads.begin_count(KEY, 3);
        assert_eq!(reserve_all(&heads), (10, BucketChoice::Counting));
        counting.finish_with_room(heads.full() - 1);
        assert_eq!(
            reserve_all(&heads),
            (11, BucketChoice::Count(3)),
            "31 are left, 10 were taken, 10 are kept"
        );
    }

    #[test]
    fn abandoned_count_lets_another_caller_count() {
        let heads = heads(70);
        assert_eq!(heads.reserve(KEY), BucketChoice::Count(3));
        drop(heads.begin_count(KEY, 3));
        assert_eq!(heads.reserve(KEY), BucketChoice::Count(3));
    }

    #[test]
    fn slow_count_adds_no_room_to_a_full_bucket() {
        let heads = heads(70);
        assert_eq!(heads.reserve(KEY), BucketChoice::Count(3));
        let late = heads.begin_count(KEY, 3);
        assert!(heads.learn(KEY, 4, 60));
        assert_eq!(heads.reserve(KEY), BucketChoice::In(4));
        late.finish_with_next_opened();
        assert_eq!(reserve_all(&heads), (9, BucketChoice::Count(4)), "20 were left, and 10 are kept");
    }

    #[test]
    fn second_read_returns_no_taken_room() {
        let heads = heads(0);
        for _ in 0..40 {
            assert_eq!(heads.reserve(KEY), BucketChoice::In(3));
        }
        assert!(heads.learn(KEY, 3, 0));
        assert_eq!(reserve_all(&heads), (30, BucketChoice::Count(3)));
        assert!(heads.learn(KEY, 2, 0));
        assert_eq!(heads.reserve(KEY), BucketChoice::In(3), "what this node has opened is open");
    }
}
