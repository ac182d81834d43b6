//! Reads notes: new ones soon, and late ones (because of clocks that differ, or writes that arrived after their node
//! had died) while their minute is open.

use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, Instant},
};

use kith_store::{StoreError, millis};

use super::{change_log::ChangeLogEntry, stores::Cql};

/// How often all open minutes are read from their beginnings.
const WHOLE_EVERY: Duration = Duration::from_secs(5);
/// Notes are not read again before this time has passed for each note that was read: otherwise, under a very high rate
/// of changes, this would be most of the servers' work.
const FOR_EACH_NOTE: Duration = Duration::from_micros(100);
/// In between, only notes are read that are at most this much older than the last one, in microseconds.
const OVERLAP: i64 = 2_000_000;
/// Lateness in addition to clocks: a write that was executed after its node had died.
const LATE: i64 = 30_000;
/// Maximum notes that are remembered as read. A forgotten one is delivered again.
const NOTES_MAX: usize = 262_144;

/// How often a window is read, whatever its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// All open minutes.
    whole_at_least_every: Duration,
    /// New notes.
    fresh_at_least_every: Duration,
}

impl Pace {
    /// For the feed, which publishes to other nodes within its bound.
    pub(super) const FEEDING: Self =
        Self { whole_at_least_every: Duration::from_secs(30), fresh_at_least_every: Duration::from_secs(1) };
    /// For the sweep, which may wait under a high rate of changes: otherwise it would read each note several times.
    pub(super) const COUNTING: Self =
        Self { whole_at_least_every: Duration::from_secs(120), fresh_at_least_every: Duration::from_secs(5) };

    /// The time until the next read of all open minutes, if the last one returned this many notes.
    fn whole(self, notes: usize) -> Duration {
        for_all(notes).clamp(WHOLE_EVERY, self.whole_at_least_every)
    }

    /// The same for new notes.
    fn fresh(self, notes: usize) -> Duration {
        for_all(notes).min(self.fresh_at_least_every)
    }
}

/// The open minutes of a shard.
#[derive(Debug)]
pub(super) struct OpenMinutes {
    shard: i32,
    pace: Pace,
    /// The first open minute.
    from: i64,
    minutes: BTreeMap<i64, Minute>,
    read_whole: Option<Whole>,
    /// When the next read of new notes is due.
    next: Option<Instant>,
}

/// The last read of all open minutes.
#[derive(Clone, Copy, Debug)]
struct Whole {
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
    pub(super) fn new(shard: i32, from: i64, pace: Pace) -> Self {
        Self { shard, pace, from, minutes: BTreeMap::new(), read_whole: None, next: None }
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
        self.read_whole.is_some()
    }

    /// Unread notes, by rising stamp. If it fails, none of them counts as read.
    pub(super) async fn read(&mut self, cql: &Cql) -> Result<Vec<ChangeLogEntry>, StoreError> {
        let now = cql.client.clock.minute();
        let whole = self.read_whole.is_none_or(|whole| whole.begun.elapsed() > whole.pause);
        let (mut fresh, mut read) = (Vec::new(), 0);
        let (begun, first_open) = (Instant::now(), Self::first_open(cql));
        if !whole && self.next.is_some_and(|next| next > begun) {
            return Ok(fresh);
        }
        for minute in self.from..=now + 1 {
            if !whole && minute < now - 1 {
                continue;
            }
            let known = self.minutes.get(&minute);
            let after = known.filter(|_| !whole).map_or(0, |known| known.latest - OVERLAP);
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
        self.next = (!whole).then(|| begun + self.pace.fresh(read));
        if whole {
            self.read_whole = Some(Whole { begun, first_open, pause: self.pace.whole(read) });
        }
        self.forget();
        fresh.sort_unstable_by_key(|note| note.stamp);
        Ok(fresh)
    }

    /// Closes a minute that was read after nothing could be added to it any more; returns its notes.
    pub(super) fn close(&mut self) -> Vec<ChangeLogEntry> {
        let until = self.read_whole.map_or(0, |whole| whole.first_open).min(self.from + 1);
        if until <= self.from {
            return Vec::new();
        }
        let open = self.minutes.split_off(&until);
        let closed = std::mem::replace(&mut self.minutes, open);
        self.from = until;
        closed.into_values().flat_map(|minute| minute.read).collect()
    }

    fn forget(&mut self) {
        while self.minutes.values().map(|minute| minute.read.len()).sum::<usize>() > NOTES_MAX {
            let Some(oldest) = self.minutes.values_mut().find(|minute| !minute.read.is_empty()) else {
                return;
            };
            oldest.read.clear();
        }
    }
}

fn for_all(notes: usize) -> Duration {
    FOR_EACH_NOTE.saturating_mul(u32::try_from(notes).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_shards_are_read_less_often_but_are_read() {
        let pace = Pace::FEEDING;
        assert_eq!([0, 50_000].map(|notes| pace.whole(notes)), [WHOLE_EVERY; 2]);
        assert_eq!(pace.whole(200_000), Duration::from_secs(20));
        assert_eq!(pace.whole(usize::MAX), Duration::from_secs(30));
        assert_eq!([0, 5_000].map(|notes| pace.fresh(notes)), [0, 500].map(Duration::from_millis));
        assert_eq!(pace.fresh(usize::MAX), Duration::from_secs(1));
    }

    #[test]
    fn quiet_sweep_reads_as_early_as_the_feed() {
        for notes in [0, 1, 1_000, 10_000] {
            assert_eq!(Pace::COUNTING.fresh(notes), Pace::FEEDING.fresh(notes));
            assert_eq!(Pace::COUNTING.whole(notes), Pace::FEEDING.whole(notes));
        }
        assert!(Pace::COUNTING.fresh(50_000) > Pace::FEEDING.fresh(50_000));
    }
}
