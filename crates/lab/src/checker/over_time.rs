//! The ages that cached reads had during a run.

/// A slot's initial length, in nanoseconds.
const SLOT: u64 = 100_000_000;
/// Maximum number of slots: they cover seven minutes at the initial length.
const SLOTS: u64 = 4_096;

/// The oldest cached read in each time slot. At most 4096 slots: in a longer run, each two slots are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverTime {
    /// When the first slot begins: at the first cached read.
    pub from: u64,
    /// A slot's length, in nanoseconds: 100 ms, doubled until the slots cover the run.
    pub slot: u64,
    /// The oldest age among the reads that began in each slot, in nanoseconds; 0 without a stale read.
    pub worst: Vec<u64>,
    /// When faults were on, in the order of time.
    pub faults: Vec<FaultTime>,
}

/// A period in which a fault was active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultTime {
    /// The fault's name.
    pub name: String,
    /// When the fault began.
    pub from: u64,
    /// When it ended; `u64::MAX`: never.
    pub until: u64,
    /// The time until which it may have had an effect.
    pub healed: u64,
    /// Maximum age that a read may have until `healed`, in nanoseconds.
    pub bound: u64,
}

impl Default for OverTime {
    fn default() -> Self {
        Self::new(0, Vec::new())
    }
}

impl OverTime {
    /// Empty, for reads that begin at `from` or later.
    pub(super) const fn new(from: u64, faults: Vec<FaultTime>) -> Self {
        Self { from, slot: SLOT, worst: Vec::new(), faults }
    }

    /// Adds a read that began at this time, with its age.
    pub(super) fn add(&mut self, began: u64, age: u64) {
        let since = began.saturating_sub(self.from);
        while since / self.slot >= SLOTS {
            self.worst =
                self.worst.chunks(2).map(|two| two.iter().copied().max().unwrap_or_default()).collect();
            self.slot *= 2;
        }
        let at = usize::try_from(since / self.slot).unwrap_or_default();
        if self.worst.len() <= at {
            self.worst.resize(at + 1, 0);
        }
        self.worst[at] = self.worst[at].max(age);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_keeps_oldest_read() {
        let mut over_time = OverTime::new(5 * SLOT, Vec::new());
        for (began, age) in [(5 * SLOT, 3), (6 * SLOT - 1, 7), (6 * SLOT - 2, 2), (8 * SLOT, 1)] {
            over_time.add(began, age);
        }
        assert_eq!(over_time.worst, [7, 0, 0, 1]);
    }

    #[test]
    fn slots_are_merged_at_their_maximum() {
        let mut over_time = OverTime::new(0, Vec::new());
        for at in 0..3 * SLOTS {
            over_time.add(at * SLOT, at);
        }
        assert_eq!((over_time.slot, over_time.worst.len()), (4 * SLOT, 3 * 1_024));
        assert_eq!(over_time.worst[..3], [3, 7, 11]);
    }

    #[test]
    fn read_at_maximum_time_takes_bounded_space() {
        let mut over_time = OverTime::new(0, Vec::new());
        over_time.add(0, 9);
        over_time.add(u64::MAX, 1);
        assert_eq!(over_time.worst.first(), Some(&9));
        assert_eq!(over_time.worst.last(), Some(&1));
        assert!(over_time.worst.len() <= 4_096);
    }
}
