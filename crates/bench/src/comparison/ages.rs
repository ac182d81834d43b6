//! Statistics about stale reads, by age and over time. Each reader counts its own reads; the run adds the
//! counts up at its end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The length of a time slot in the plots.
pub(super) const SLOT: Duration = Duration::from_millis(100);
/// A stale read above such a limit counts in the next age class: what a message takes, a second, what Kith
/// promises while Redis is away.
const AGES: [Duration; 3] = [Duration::from_millis(50), Duration::from_secs(1), Duration::from_secs(3)];

/// The ages that readers observed. A read is stale if a later version had been acknowledged before it began;
/// its age is the time since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ages {
    /// Reads that were answered.
    pub reads: u64,
    /// Reads that failed.
    pub failed: u64,
    /// Stale reads up to 50 ms, up to 1 s, up to 3 s, and above.
    pub stale: [u64; 4],
    /// Stale reads that were older than Kith promises for the fault.
    pub beyond: u64,
    /// The greatest age, in milliseconds.
    pub worst_ms: u64,
    /// The greatest age in each 100 ms since the fault began, in milliseconds; 0 for a slot without a stale
    /// read. Missing slots at the end are 0.
    pub slots_ms: Vec<u64>,
}

impl Ages {
    /// Counts a read that began `since` after the fault and returned a version with this age. Zero: it was
    /// not stale.
    pub(super) fn answered(&mut self, since: Duration, age: Duration, bound: Duration) {
        self.reads += 1;
        if age.is_zero() {
            return;
        }
        self.stale[AGES.iter().filter(|most| age > **most).count()] += 1;
        self.beyond += u64::from(age > bound);
        let slot = usize::try_from(since.as_millis() / SLOT.as_millis()).unwrap_or_default();
        if self.slots_ms.len() <= slot {
            self.slots_ms.resize(slot + 1, 0);
        }
        let age_ms = millis(age).max(1);
        self.slots_ms[slot] = self.slots_ms[slot].max(age_ms);
        self.worst_ms = self.worst_ms.max(age_ms);
    }

    /// Adds the results of other reads.
    pub(super) fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.failed += other.failed;
        self.beyond += other.beyond;
        self.worst_ms = self.worst_ms.max(other.worst_ms);
        for (sum, more) in self.stale.iter_mut().zip(other.stale) {
            *sum += more;
        }
        let length = self.slots_ms.len().max(other.slots_ms.len());
        self.slots_ms.resize(length, 0);
        for (worst, more) in self.slots_ms.iter_mut().zip(&other.slots_ms) {
            *worst = (*worst).max(*more);
        }
    }
}

/// The time in milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ages(reads: &[(u64, u64)]) -> Ages {
        let mut ages = Ages::default();
        for (since, age) in reads {
            ages.answered(Duration::from_millis(*since), Duration::from_millis(*age), Duration::from_secs(2));
        }
        ages
    }

    #[test]
    fn stale_read_counts_once_by_age_and_moment() {
        let ages = ages(&[(0, 0), (10, 50), (120, 51), (250, 1_001), (210, 3_001)]);
        assert_eq!((ages.reads, ages.stale, ages.beyond), (5, [1, 1, 1, 1], 1));
        assert_eq!((ages.slots_ms, ages.worst_ms), (vec![50, 51, 3_001], 3_001));
    }

    #[test]
    fn sum_of_readers_keeps_worst_of_each_moment() {
        let mut sum = ages(&[(0, 70), (110, 5)]);
        sum.add(&ages(&[(0, 3), (110, 9), (240, 4)]));
        assert_eq!((sum.reads, sum.stale, sum.slots_ms), (5, [4, 1, 0, 0], vec![70, 9, 4]));
    }
}
