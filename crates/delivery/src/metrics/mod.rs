//! The metrics for windows, inboxes and sequences.

mod inboxes;
mod sequences;

use kith_cache::Metric;
use metrics::{Counter, counter};

pub(crate) use self::{
    inboxes::{GenerationReason, InboxCounts},
    sequences::{BlockCounts, BlockUse},
};
#[cfg(feature = "redis")]
use crate::DropReason;

/// Every metric in this crate.
pub const METRICS: [Metric; 8] = [
    READS,
    APPENDS,
    DROPPED,
    INBOX_ENTRIES,
    INBOX_GENERATIONS,
    INBOX_WAKES,
    sequences::BLOCKS,
    sequences::WAIT,
];

const READS: Metric = Metric::counter(
    "kith_window_reads_total",
    &["result"],
    "Reads of windows of messages, by the answer: hit, miss (filled from the store), busy (another reader \
     fills it), held (a message is being changed), old (compared with the store first), away (no answer).",
);
const APPENDS: Metric = Metric::counter(
    "kith_window_appends_total",
    &["result"],
    "Appends of messages to windows: `added`, or `failed` because Redis did not answer in time. After a \
     failed append other nodes may not see these messages for up to 10 s.",
);
const DROPPED: Metric = Metric::counter(
    "kith_window_dropped_total",
    &["why"],
    "Windows that were dropped: gap, change, hold, behind, evicted (Redis lost a part).",
);

const INBOX_ENTRIES: Metric = Metric::counter(
    "kith_inbox_entries_total",
    &[],
    "Entries that were written to inboxes by calls of this node.",
);
const INBOX_GENERATIONS: Metric = Metric::counter(
    "kith_inbox_generations_total",
    &["why"],
    "Inboxes that began or ended: new (the user had none), hash, stream (Redis lost a part of one; its receivers are reset), room \
     (memory was full).",
);
const INBOX_WAKES: Metric = Metric::counter(
    "kith_inbox_wakes_total",
    &[],
    "Wakes that this node published for nodes with receivers.",
);

/// The result of a window read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadResult {
    Hit,
    Miss,
    Busy,
    Held,
    Old,
    Unavailable,
}

/// Window counters, resolved once. All metrics in this crate are there from zero on, also for a node without
/// inboxes.
pub(crate) struct WindowCounts {
    reads: [Counter; 6],
    added: Counter,
    failed: Counter,
}

impl WindowCounts {
    pub(crate) fn new() -> Self {
        for why in ["gap", "change", "hold", "behind", "evicted"] {
            counter!(DROPPED.name, "why" => why).increment(0);
        }
        drop(InboxCounts::new());
        let results = ["hit", "miss", "busy", "held", "old", "away"];
        let appends = |result: &'static str| counter!(APPENDS.name, "result" => result);
        Self {
            reads: results.map(|result| counter!(READS.name, "result" => result)),
            added: appends("added"),
            failed: appends("failed"),
        }
    }

    pub(crate) fn read(&self, read: ReadResult) {
        self.reads[read as usize].increment(1);
    }

    /// Counts an append that Redis took, or not.
    pub(crate) fn append(&self, added: bool) {
        let counter = if added { &self.added } else { &self.failed };
        counter.increment(1);
    }
}

impl std::fmt::Debug for WindowCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WindowCounts")
    }
}

/// Counts a window that was dropped.
#[cfg(feature = "redis")]
pub(crate) fn count_drop(why: DropReason) {
    let why = match why {
        DropReason::Gap => "gap",
        DropReason::Change => "change",
        DropReason::Hold => "hold",
        DropReason::Behind => "behind",
        DropReason::Evicted => "evicted",
    };
    counter!(DROPPED.name, "why" => why).increment(1);
}
