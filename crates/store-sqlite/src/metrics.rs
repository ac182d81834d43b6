//! This store's metrics.

/// Every metric in this store; none has labels.
pub const METRICS: [Metric; 3] = [QUEUE_LENGTH, COMMIT_BATCH_SIZE, COMMIT_SECONDS];

/// Describes a metric. Its name ends with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The exported name.
    pub name: &'static str,
    /// Whether it is a histogram; otherwise a gauge.
    pub histogram: bool,
    /// The meaning, in one sentence.
    pub help: &'static str,
}

pub(crate) const QUEUE_LENGTH: Metric = Metric {
    name: "kith_sqlite_queue_length",
    histogram: false,
    help: "Writes that waited when the writer began its last commit.",
};
pub(crate) const COMMIT_BATCH_SIZE: Metric =
    Metric { name: "kith_sqlite_commit_batch_size", histogram: true, help: "Writes that shared a commit." };
pub(crate) const COMMIT_SECONDS: Metric = Metric {
    name: "kith_sqlite_commit_seconds",
    histogram: true,
    help: "Time of a commit with the writes in it, until the disk has it.",
};
