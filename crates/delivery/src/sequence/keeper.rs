//! The store of the blocks from which all nodes take numbers.

use std::fmt;

use async_trait::async_trait;
use kith_cache::remote::SharedError;
use kith_store::{Seq, SeqRange, SequenceName};

/// The result of a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// Numbers, at most as many as requested.
    Numbers {
        /// The numbers.
        range: SeqRange,
        /// The rest for later takes.
        left: u64,
    },
    /// The sequence is unknown, or its state is older than that of the caller.
    Unknown,
    /// All numbers are used up.
    UsedUp,
}

/// A block of numbers that was taken from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The numbers; all above `seen`.
    pub block: SeqRange,
    /// The highest number that was known when the block was taken.
    pub seen: Seq,
}

/// Issues the numbers of blocks, for all nodes.
///
/// Each call is one step of one sequence, atomic and isolated. Sequences may disappear at any time, and all of them do
/// when the epoch changes. A failed call may have been applied, or may be applied later.
#[async_trait]
pub trait SequenceKeeper: Send + Sync + fmt::Debug + 'static {
    /// Issues the next `count` numbers of a sequence (above 0), or as many as there are, all above `seen`. The numbers
    /// of a call that failed are lost.
    ///
    /// # Errors
    /// If the keeper does not answer.
    async fn take(&self, name: &SequenceName, count: u32, seen: Seq) -> Result<TakeOutcome, SharedError>;

    /// Adds a block behind those that the sequence has, or drops it. The block replaces what the sequence has if that is at or below
    /// [`Offer::seen`]. Each block is offered once, whatever the answer was.
    ///
    /// # Errors
    /// If the keeper does not answer.
    async fn offer(&self, name: &SequenceName, offer: Offer) -> Result<(), SharedError>;
}
