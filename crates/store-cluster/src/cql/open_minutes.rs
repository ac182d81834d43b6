//! Reads notes: new ones soon, and late ones (because of clocks that differ, or writes that arrived after their node
//! had died) while their minute is open.

use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, Instant},
};

use kith_store::{StoreError, millis};

use super::{change_log::ChangeLogEntry, stores::Cql};

/// How often all open minutes are read from their beginnings.
const FULL_READ_EVERY: Duration = Duration::from_secs(5);
/// Notes are not read again before this time has passed for each note that was read: otherwise, under a very high rate
/// of changes, this would be most of the servers' work.
const PAUSE_PER_NOTE: Duration = Duration::from_micros(100);
/// In between, only notes are read that are at most this much older than the last one, in microseconds.
const OVERLAP: i64 = 2_000_000;
/// Lateness in addition to clocks: a write that was executed after its node had died.
const LATE: i64 = 30_000;
/// Maximum notes that are remembered as read. A forgotten one is delivered again.
const NOTES_MAX: usize = 262_144;

/// The longest times between reads of a window, whatever its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadIntervals {
    /// All open minutes.
    full_read_max: Duration,
    /// New notes.
    next_read_max: Duration,
}

impl ReadIntervals {
    /// For the feed, which publishes to other nodes within its bound.
    pub(super) const FEED: Self =
        Self { full_read_max: Duration::from_secs(30), next_read_max: Duration::from_secs(1) };
    /// For the sweep, which may wait under a high rate of changes: otherwise it would read each note several times.
    pub(super) const SWEEP: Self =
        Self { full_read_max: Duration::from_secs(120), next_read_max: Duration::from_secs(5) };

    /// The time until the next read of all open minutes, if the last one returned this many notes.
    fn until_full_read(self, notes: usize) -> Duration {
        pause_for(notes).clamp(FULL_READ_EVERY, self.full_read_max)
    }

    /// The same for new notes.
    fn until_next_read(self, notes: usize) -> Duration {
        pause_for(notes).min(self.next_read_max)
    }
}

/// The open minutes of a shard.
#[derive(Debug)]
pub(super) struct OpenMinutes {
    shard: i32,
    intervals: ReadIntervals,
    /// The first open minute.
    from: i64,
    minutes: BTreeMap<i64, Minute>,
    last_full_read: Option<FullRead>,
    /// When the next read of new notes is due.
    next_read: Option<Instant>,
}

/// The last read of all open minutes.
#[derive(Clone, Copy, Debug)]
struct FullRead {
    begun: Instant,
    /// The first minute that was open then.
    first_open: i64,
    /// The time until the next one.
    pause: Duration,
}

#[derive(Debug, Default)]
struct Minute {
    read: HashSet<ChangeLogEntry>,
    latest: i64,
}

impl OpenMinutes {
    /// Opens a window that begins with this minute.
    pub(super) fn new(shard: i32, from: i64, intervals: ReadIntervals) -> Self {
        Self { shard, intervals, from, minutes: BTreeMap::new(), last_full_read: None, next_read: None }
    }

    /// The first minute that is open now by the clock of this node.
    pub(super) fn first_open(cql: &Cql) -> i64 {
        let apart = millis(cql.client.options.clocks_apart);
        (cql.client.clock.millis() - apart - LATE) / 60_000
    }

    /// The first minute of this window.
    pub(super) const fn from(&self) -> i64 {
        self.from
    }

    /// Whether it was ever read.
    pub(super) const fn has_been_read(&self) -> bool {
        self.last_full_read.is_some()
    }

    /// Unread notes, by rising stamp. If it fails, none of them counts as read.
    pub(super) async fn read(&mut self, cql: &Cql) -> Result<Vec<ChangeLogEntry>, StoreError> {
        let now = cql.client.clock.minute();
        let is_full = self.last_full_read.is_none_or(|last| last.begun.elapsed() > last.pause);
        let (mut fresh, mut read) = (Vec::new(), 0);
        let (begun, first_open) = (Instant::now(), Self::first_open(cql));
        if !is_full && self.next_read.is_some_and(|next| next > begun) {
            return Ok(fresh);
        }
        for minute in self.from..=now + 1 {
            if !is_full && minute < now - 1 {
                continue;
            }
            let known = self.minutes.get(&minute);
            let after = known.filter(|_| !is_full).map_or(0, |known| known.latest - OVERLAP);
            let notes = cql.notes(self.shard, minute, after).await?;
            read += notes.len();
            fresh.extend(
                notes.into_iter().filter(|note| known.is_none_or(|known| !known.read.contains(note))),
            );
        }
        for note in &fresh {
            let minute = self.minutes.entry(note.minute).or_default();
            minute.read.insert(*note);
            minute.latest = minute.latest.max(note.stamp);
        }
        self.next_read = (!is_full).then(|| begun + self.intervals.until_next_read(read));
        if is_full {
            self.last_full_read =
                Some(FullRead { begun, first_open, pause: self.intervals.until_full_read(read) });
        }
        self.forget_oldest();
        fresh.sort_unstable_by_key(|note| note.stamp);
        Ok(fresh)
    }

    /// Closes a minute that was read after nothing could be added to it any more; returns its notes.
    pub(super) fn close(&mut self) -> Vec<ChangeLogEntry> {
        let until = self.last_full_read.map_or(0, |last| last.first_open).min(self.from + 1);
        if until <= self.from {
            return Vec::new();
        }
        let open = self.minutes.split_off(&until);
        let closed = std::mem::replace(&mut self.minutes, open);
        self.from = until;
        closed.into_values().flat_map(|minute| minute.read).collect()
    }

    fn forget_oldest(&mut self) {
        while self.minutes.values().map(|minute| minute.read.len()).sum::<usize>() > NOTES_MAX {
            let Some(oldest) = self.minutes.values_mut().find(|minute| !minute.read.is_empty()) else {
                return;
            };
            oldest.read.clear();
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
    fn quiet_sweep_reads_as_early_as_the_feed() {
        let (feed, sweep) = (ReadIntervals::FEED, ReadIntervals::SWEEP);
        for notes in [0, 1, 1_000, 10_000] {
            assert_eq!(sweep.until_next_read(notes), feed.until_next_read(notes));
            assert_eq!(sweep.until_full_read(notes), feed.until_full_read(notes));
        }
        assert!(sweep.until_next_read(50_000) > feed.until_next_read(50_000));
    }
}
