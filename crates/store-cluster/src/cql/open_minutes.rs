//! Reads notes: new notes soon, and late notes (because clocks differ, or writes arrived after their node had
//! died) while their minute is open. A shard without new notes is read less often.

use std::{
    collections::{BTreeMap, HashSet, hash_map::RandomState},
    hash::BuildHasher as _,
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use kith_store::{StoreError, millis};

use super::{change_log::ChangeLogEntry, stores::Cql};

/// How often all open minutes are read from their beginnings.
const FULL_READ_EVERY: Duration = Duration::from_secs(5);
/// Notes are not read again before this time has passed for each note that was read: otherwise, under a very
/// high rate of changes, this would be most of the servers' work.
const PAUSE_PER_NOTE: Duration = Duration::from_micros(100);
/// In between, only notes are read that are at most this much older than the last note, in microseconds.
const OVERLAP: i64 = 2_000_000;
/// Lateness in addition to clocks: a write that was executed after its node had died.
const LATE: i64 = 30_000;
/// How near the minutes are, in milliseconds by this node's clock, that are read in between on a busy shard.
const NEAR_BUSY: i64 = 60_000;
/// The most notes in a minute that are remembered as read: 7,600 a second in each shard, in 5 MB. Further
/// notes are returned again by each read, until the minute is closed.
const READ_MAX: usize = 458_752;

/// The longest times between reads of a window, whatever its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadIntervals {
    /// The longest time between reads of all open minutes.
    full_read_max: Duration,
    /// The longest time between reads of new notes.
    next_read_max: Duration,
    /// New notes, after a read that found none.
    quiet: Duration,
    /// Like [`NEAR_BUSY`], while all open minutes are read each [`FULL_READ_EVERY`]. A note whose clock is
    /// further away waits for that.
    near: i64,
}

impl ReadIntervals {
    /// The times for the feed, which publishes to other nodes within its bound: 11 s after a node was killed.
    pub(super) const FEED: Self = Self {
        full_read_max: Duration::from_secs(30),
        next_read_max: Duration::from_secs(1),
        quiet: Duration::from_secs(2),
        near: 10_000,
    };
    /// The times for the sweep, which may wait under a high rate of changes: otherwise it would read each
    /// note several times. At lower rates, lists are counted within 2 s.
    pub(super) const SWEEP: Self = Self {
        full_read_max: Duration::from_secs(120),
        next_read_max: Duration::from_secs(5),
        quiet: Duration::from_secs(1),
        near: 30_000,
    };

    /// The time until all open minutes are read again, if the last read returned this many notes.
    fn until_full_read(self, notes: usize) -> Duration {
        pause_for(notes).clamp(FULL_READ_EVERY, self.full_read_max)
    }

    /// Like `until_full_read`, but for new notes.
    fn until_next_read(self, notes: usize) -> Duration {
        pause_for(notes).min(self.next_read_max)
    }
}

/// A shard's open minutes.
#[derive(Debug)]
pub(super) struct OpenMinutes {
    shard: i32,
    intervals: ReadIntervals,
    /// The first open minute.
    from: i64,
    minutes: BTreeMap<i64, Minute>,
    last_full_read: Option<FullRead>,
    /// When new notes are read again.
    next_read: Option<Instant>,
    /// When notes were last read without an error.
    last_read: Option<Instant>,
    hasher: RandomState,
}

/// The last read over all open minutes.
#[derive(Clone, Copy, Debug)]
struct FullRead {
    begun: Instant,
    /// The first minute that was open then.
    first_open: i64,
    /// The time until the next read.
    pause: Duration,
}

#[derive(Debug, Default)]
struct Minute {
    /// Hashes of the notes that were read, a tenth of their size. Among ten million hashes two agree once in
    /// 400,000 runs.
    read: HashSet<u64>,
    latest: i64,
}

impl Minute {
    fn add(&mut self, note: u64, stamp: i64) {
        self.latest = self.latest.max(stamp);
        if self.read.len() < READ_MAX {
            self.read.insert(note);
        }
    }
}

impl OpenMinutes {
    /// Opens a window that begins with this minute.
    pub(super) fn new(shard: i32, from: i64, intervals: ReadIntervals) -> Self {
        Self {
            shard,
            intervals,
            from,
            minutes: BTreeMap::new(),
            last_full_read: None,
            next_read: None,
            last_read: None,
            hasher: RandomState::new(),
        }
    }

    /// The first minute that is open now by this node's clock.
    pub(super) fn first_open(cql: &Cql) -> i64 {
        let apart = millis(cql.client.options.clocks_apart);
        (cql.client.clock.millis() - apart - LATE) / 60_000
    }

    /// The first minute in this window.
    pub(super) const fn from(&self) -> i64 {
        self.from
    }

    /// Whether it was ever read.
    pub(super) const fn has_been_read(&self) -> bool {
        self.last_full_read.is_some()
    }

    /// The time since notes were last read without an error.
    pub(super) fn since_read(&self) -> Option<Duration> {
        self.last_read.map(|at| at.elapsed())
    }

    /// Unread notes, by rising stamp; none if it is too early to read again. If it fails, no note counts as
    /// read.
    pub(super) async fn read(&mut self, cql: &Cql) -> Result<Vec<ChangeLogEntry>, StoreError> {
        let now = cql.client.clock.minute();
        let is_full = self.last_full_read.is_none_or(|last| last.begun.elapsed() > last.pause);
        let (mut fresh, mut read) = (Vec::new(), 0);
        let (begun, first_open) = (Instant::now(), Self::first_open(cql));
        if !is_full && self.next_read.is_some_and(|next| next > begun) {
            return Ok(fresh);
        }
        let minutes = if is_full { self.from..=now + 1 } else { self.near(cql.client.clock.millis()) };
        for minute in minutes {
            let known = self.minutes.get(&minute);
            let after = known.filter(|_| !is_full).map_or(0, |known| known.latest - OVERLAP);
            let notes = cql.notes(self.shard, minute, after).await?;
            read += notes.len();
            fresh.extend(
                notes.into_iter().filter(|note| {
                    known.is_none_or(|known| !known.read.contains(&self.hasher.hash_one(note)))
                }),
            );
        }
        for note in &fresh {
            let hash = self.hasher.hash_one(note);
            self.minutes.entry(note.minute).or_default().add(hash, note.stamp);
        }
        let pause = match (fresh.is_empty(), is_full) {
            (true, _) => self.intervals.quiet,
            (false, true) => Duration::ZERO,
            (false, false) => self.intervals.until_next_read(read),
        };
        (self.next_read, self.last_read) = (Some(begun + pause), Some(begun));
        if is_full {
            self.last_full_read =
                Some(FullRead { begun, first_open, pause: self.intervals.until_full_read(read) });
        }
        fresh.sort_unstable_by_key(|note| note.stamp);
        Ok(fresh)
    }

    /// The minutes that may get new notes now, by this clock.
    fn near(&self, now_ms: i64) -> RangeInclusive<i64> {
        let is_busy = self.last_full_read.is_some_and(|last| last.pause > FULL_READ_EVERY);
        let near = if is_busy { NEAR_BUSY } else { self.intervals.near };
        self.from.max((now_ms - near) / 60_000)..=(now_ms + near) / 60_000
    }

    /// Whether the first minute was read after nothing could be added to it any more.
    pub(super) fn can_close(&self) -> bool {
        self.last_full_read.is_some_and(|last| last.first_open > self.from)
    }

    /// Whether the first minute has notes.
    pub(super) fn has_notes(&self) -> bool {
        self.minutes.contains_key(&self.from)
    }

    /// Closes the first minute, if that is possible.
    pub(super) fn close(&mut self) {
        if self.can_close() {
            self.minutes.remove(&self.from);
            self.from += 1;
        }
    }
}

fn pause_for(notes: usize) -> Duration {
    PAUSE_PER_NOTE.saturating_mul(u32::try_from(notes).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_shards_are_read_less_often_but_are_read() {
        let feed = ReadIntervals::FEED;
        assert_eq!([0, 50_000].map(|notes| feed.until_full_read(notes)), [FULL_READ_EVERY; 2]);
        assert_eq!(feed.until_full_read(200_000), Duration::from_secs(20));
        assert_eq!(feed.until_full_read(usize::MAX), Duration::from_secs(30));
        assert_eq!([0, 5_000].map(|notes| feed.until_next_read(notes)), [0, 500].map(Duration::from_millis));
        assert_eq!(feed.until_next_read(usize::MAX), Duration::from_secs(1));
    }

    #[test]
    fn quiet_shard_is_read_in_few_minutes() {
        let read_at = |window: &OpenMinutes, seconds: i64| window.near(600_000 + seconds * 1_000);
        let mut window = OpenMinutes::new(0, 0, ReadIntervals::FEED);
        let minutes = [0, 9, 10, 30, 49, 50, 59].map(|seconds| read_at(&window, seconds));
        assert_eq!(minutes, [9..=10, 9..=10, 10..=10, 10..=10, 10..=10, 10..=11, 10..=11]);
        let pause = FULL_READ_EVERY * 2;
        window.last_full_read = Some(FullRead { begun: Instant::now(), first_open: 0, pause });
        assert_eq!([0, 30].map(|seconds| read_at(&window, seconds)), [9..=11, 9..=11]);
        window.from = 10;
        assert_eq!(read_at(&window, 0), 10..=11, "closed minutes are not read");
    }

    #[test]
    fn full_minute_still_knows_what_it_has_read() {
        let mut minute = Minute::default();
        let notes = u64::try_from(READ_MAX).unwrap();
        for note in 0..2 * notes {
            minute.add(note, i64::try_from(note).unwrap());
        }
        assert_eq!((minute.read.len(), minute.latest), (READ_MAX, 2 * i64::try_from(notes).unwrap() - 1));
        assert!((0..notes).all(|note| minute.read.contains(&note)), "they are not new again");
    }

    #[test]
    fn quiet_sweep_reads_as_early_as_the_feed() {
        let (feed, sweep) = (ReadIntervals::FEED, ReadIntervals::SWEEP);
        for notes in [0, 1, 1_000, 10_000] {
            assert_eq!(sweep.until_next_read(notes), feed.until_next_read(notes));
            assert_eq!(sweep.until_full_read(notes), feed.until_full_read(notes));
        }
        assert!(sweep.until_next_read(50_000) > feed.until_next_read(50_000));
    }
}
