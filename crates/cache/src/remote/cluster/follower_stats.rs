use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::metrics::{bus::Propagation, counters::Counter};

/// How far a node is with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Entries that were known at its last probe and are not applied.
    pub behind: u64,
    /// Time since it sent the last probe whose answer proved that it had missed no change; `None` before the first.
    pub since_proof: Option<Duration>,
    /// Repairs of the position in the log since the start.
    pub repairs: u64,
}

/// Counters of a node that follows the log, since its start.
#[derive(Debug, Default)]
pub struct FollowerStats {
    /// Entries applied, received or read from the log.
    pub(crate) applied: Counter,
    /// Of them, those that were read from the log.
    pub(crate) replayed: Counter,
    /// Times that entries were missing.
    pub(crate) gaps: Counter,
    /// Times that the log was another one than the one followed.
    pub(crate) forks: Counter,
    /// Times that the subscription was lost.
    pub(crate) cuts: Counter,
    /// Times that memory was emptied because what was missed could not be read.
    pub(crate) baselines: Counter,
    /// Messages without valid authentication, and bytes that are no message.
    pub(crate) forged: Counter,
    /// Changes that were published for writers that did not publish them.
    pub(crate) fed: Counter,
    /// Probes that were not answered.
    pub(crate) probes_failed: Counter,
    /// Propagation times of changes.
    pub(crate) propagation: Propagation,
    /// Number of the last entry of the log, from the last probe.
    head: AtomicU64,
}

impl FollowerStats {
    /// A probe returned that this is the last entry of the log.
    pub(crate) fn has_seen(&self, head: u64) {
        self.head.store(head, Ordering::Relaxed);
    }

    /// Entries after this one up to the end that the last probe returned.
    pub(crate) fn behind(&self, applied: u64) -> u64 {
        self.head.load(Ordering::Relaxed).saturating_sub(applied)
    }

    /// Repairs of the position in the log, of any cause.
    pub(crate) fn repairs(&self) -> u64 {
        [&self.gaps, &self.cuts, &self.forks, &self.baselines].map(Counter::get).iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_the_probed_end_minus_applied() {
        let tally = FollowerStats::default();
        assert_eq!(tally.behind(0), 0);
        tally.has_seen(7);
        assert_eq!([5, 7, 9].map(|applied| tally.behind(applied)), [2, 0, 0]);
        tally.gaps.add(1);
        tally.baselines.add(2);
        assert_eq!(tally.repairs(), 3);
    }
}
