//! Sequence limits.

/// Block sizes, and limits for callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceLimits {
    /// How many numbers a sequence's first block has. Above 0.
    pub block: u32,
    /// How many numbers its largest block has. Not below `block`.
    pub block_max: u32,
    /// Sequences that a node knows at a time. Above 0.
    pub names: usize,
    /// Calls that wait on a node at a time. Above 0.
    pub waiting: usize,
    /// Numbers that wait for one sequence on a node at a time; not below the limit for one call.
    pub waiting_of_one: u32,
}

impl Default for SequenceLimits {
    /// 100, 6,400, 10,000 sequences, 10,000 calls, 100,000 numbers.
    fn default() -> Self {
        Self { block: 100, block_max: 6_400, names: 10_000, waiting: 10_000, waiting_of_one: 100_000 }
    }
}
