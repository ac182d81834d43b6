use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::FeedProgress;
use crate::metrics::{bus::Propagation, counters::Counter};

/// How far a node has followed the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerStatus {
    /// Entries up to the end of the log at the last probe that are not applied.
    pub behind: u64,
    /// Time since it sent the last probe whose answer proved that it had missed no change; `None` before the
    /// first.
    pub since_proof: Option<Duration>,
    /// Repairs of the position in the log since the start.
    pub repairs: u64,
}

/// Counters of a node that follows the log, since its start.
#[derive(Debug, Default)]
pub struct FollowerStats {
    /// Entries applied, whether received or read from the log.
    pub(crate) applied: Counter,
    /// Applied entries that were read from the log.
    pub(crate) replayed: Counter,
    /// Times that entries were missing.
    pub(crate) gaps: Counter,
    /// How often the log was not the log that was followed.
    pub(crate) forks: Counter,
    /// Times that the subscription was lost.
    pub(crate) cuts: Counter,
    /// Times that the node took a new baseline and emptied its memory, when it joined or could not read all
    /// missed entries.
    pub(crate) baselines: Counter,
    /// Messages without valid authentication, and data that is no message.
    pub(crate) forged: Counter,
    /// Changes that the reader of the change feed published because their writers did not.
    pub(crate) fed: Counter,
    /// Probes that were not answered.
    pub(crate) probes_failed: Counter,
    /// Propagation times of changes.
    pub(crate) propagation: Propagation,
    /// How far the change feeds are read.
    pub feeds: FeedProgress,
    /// Number of the log's last entry, from the last probe.
    log_end: AtomicU64,
}

impl FollowerStats {
    /// Records the number of the log's last entry, as a probe returned it.
    pub(crate) fn record_log_end(&self, log_end: u64) {
        self.log_end.store(log_end, Ordering::Relaxed);
    }

    /// How many entries follow this entry, up to the log's end at the last probe.
    pub(crate) fn behind(&self, applied: u64) -> u64 {
        self.log_end.load(Ordering::Relaxed).saturating_sub(applied)
    }

    /// How often the position in the log was repaired, for any cause.
    pub(crate) fn repairs(&self) -> u64 {
        [&self.gaps, &self.cuts, &self.forks, &self.baselines].map(Counter::get).iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_the_probed_end_minus_applied() {
        let stats = FollowerStats::default();
        assert_eq!(stats.behind(0), 0);
        stats.record_log_end(7);
        assert_eq!([5, 7, 9].map(|applied| stats.behind(applied)), [2, 0, 0]);
        stats.gaps.add(1);
        stats.baselines.add(2);
        assert_eq!(stats.repairs(), 3);
    }
}
