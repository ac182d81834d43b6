use super::metrics::Propagation;
use crate::counters::Counter;

/// What a node has met while it followed the log, since its start.
#[derive(Debug, Default)]
pub struct Tally {
    /// Entries applied, heard or read from the log.
    pub(crate) applied: Counter,
    /// Of them, those that were read from the log.
    pub(crate) replayed: Counter,
    /// Times that entries were missing.
    pub(crate) gaps: Counter,
    /// Times that the log was another one than was followed.
    pub(crate) forks: Counter,
    /// Times that the subscription was lost.
    pub(crate) cuts: Counter,
    /// Times that memory was emptied because what was missed could not be read.
    pub(crate) baselines: Counter,
    /// Messages without a good seal, and bytes that are no message.
    pub(crate) forged: Counter,
    /// Changes told for writers that did not tell them.
    pub(crate) fed: Counter,
    /// Probes that were not answered.
    pub(crate) probes_failed: Counter,
    /// How long changes took to come.
    pub(crate) propagation: Propagation,
}
