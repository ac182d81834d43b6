//! The metrics for sequences.

use std::time::Duration;

use kith_cache::Metric;
use metrics::{Counter, Histogram, counter, histogram};

pub(super) const BLOCKS: Metric = Metric::counter(
    "kith_sequence_blocks_total",
    &["why"],
    "Blocks of numbers from the store: `needed` by a call, `ahead` of that, `direct` without Redis.",
);
pub(super) const WAIT: Metric = Metric::histogram(
    "kith_sequence_wait_seconds",
    &[],
    "Time from a reservation of numbers of a sequence until this node had them.",
);

/// Why a block was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockUse {
    Needed,
    Ahead,
    Direct,
}

/// Resolved once. All are there from zero on.
pub(crate) struct BlockCounts {
    taken: [Counter; 3],
    wait: Histogram,
}

impl BlockCounts {
    pub(crate) fn new() -> Self {
        let taken = ["needed", "ahead", "direct"].map(|why| counter!(BLOCKS.name, "why" => why));
        taken.iter().for_each(|counter| counter.increment(0));
        Self { taken, wait: histogram!(WAIT.name) }
    }

    pub(crate) fn count(&self, why: BlockUse) {
        self.taken[why as usize].increment(1);
    }

    pub(crate) fn waited(&self, time: Duration) {
        self.wait.record(time);
    }
}

impl std::fmt::Debug for BlockCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BlockCounts")
    }
}
