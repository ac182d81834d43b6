//! Counters of a namespace, updated on every read. Updates are relaxed: values that are exported together may
//! be from slightly different moments.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Loaded;

/// A counter for many threads, on a cache line of its own, so that it disturbs nothing else.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn sub(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a loaded value was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// Its key was invalidated without a version while it was loaded.
    Poisoned,
    /// It is older than its key is known to be.
    Floor,
    /// Memory was flushed while it was loaded.
    Epoch,
    /// A write of its key is under way.
    Mark,
    /// Memory has a newer copy.
    Newer,
    /// It exceeds the largest weight.
    TooLarge,
    /// The shared tier refused it: the record has changed since it was read.
    Shared,
}

impl Rejection {
    /// All, each at the index of its number.
    pub(crate) const ALL: [Self; 7] =
        [Self::Poisoned, Self::Floor, Self::Epoch, Self::Mark, Self::Newer, Self::TooLarge, Self::Shared];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Poisoned => "poisoned",
            Self::Floor => "floor",
            Self::Epoch => "epoch",
            Self::Mark => "mark",
            Self::Newer => "newer",
            Self::TooLarge => "too_large",
            Self::Shared => "shared",
        }
    }
}

/// The counters of a namespace since its start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Reads that memory answered, including absences.
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) shared_found: Counter,
    pub(crate) shared_absent: Counter,
    pub(crate) shared_missed: Counter,
    pub(crate) shared_errors: Counter,
    pub(crate) leases_won: Counter,
    pub(crate) leases_waited: Counter,
    pub(crate) fills_refused: Counter,
    pub(crate) store_found: Counter,
    pub(crate) store_absent: Counter,
    pub(crate) store_errors: Counter,
    pub(crate) joined: Counter,
    pub(crate) loads: Counter,
    pub(crate) load_errors: Counter,
    pub(crate) loads_in_flight: Counter,
    pub(crate) stale_slow: Counter,
    pub(crate) stale_error: Counter,
    pub(crate) invalidations_sent: Counter,
    pub(crate) invalidations_received: Counter,
    pub(crate) shed: Counter,
    pub(crate) resync_checked: Counter,
    pub(crate) resync_stale_memory: Counter,
    pub(crate) resync_stale_redis: Counter,
    rejected: [Counter; Rejection::ALL.len()],
}

impl Counters {
    /// Counts the shared tier's answers.
    pub(crate) fn answered_by_shared<'a, V: 'a>(&self, answers: impl Iterator<Item = Option<&'a Loaded<V>>>) {
        let (mut found, mut absent, mut missed) = (0, 0, 0);
        for answer in answers {
            match answer {
                Some(Loaded::Found { .. }) => found += 1,
                Some(Loaded::Absent { .. }) => absent += 1,
                None => missed += 1,
            }
        }
        for (counter, more) in
            [(&self.shared_found, found), (&self.shared_absent, absent), (&self.shared_missed, missed)]
        {
            if more > 0 {
                counter.add(more);
            }
        }
    }

    pub(crate) fn reject(&self, rejection: Rejection) {
        self.rejected(rejection).add(1);
    }

    pub(crate) fn rejected(&self, rejection: Rejection) -> &Counter {
        match rejection {
            Rejection::Poisoned => &self.rejected[0],
            Rejection::Floor => &self.rejected[1],
            Rejection::Epoch => &self.rejected[2],
            Rejection::Mark => &self.rejected[3],
            Rejection::Newer => &self.rejected[4],
            Rejection::TooLarge => &self.rejected[5],
            Rejection::Shared => &self.rejected[6],
        }
    }
}
