//! Stores the blocks from which all nodes take numbers.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use kith_cache::remote::SharedError;
use kith_store::{Seq, SeqRange, SequenceName};

/// How long one node has the right to fetch a block. Longer than a healthy store's step: a node that fetches
/// while another node's block is on its way may leave a gap. Shorter than a caller wants to wait when the
/// node that fetches has died.
pub(super) const FETCH_LEASE: Duration = Duration::from_millis(250);

/// A request for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Take {
    /// How many numbers. Above 0.
    pub count: u32,
    /// The highest number that the node was given or its caller knows.
    pub seen: Seq,
    /// A block is to be fetched when fewer numbers than this are left.
    pub low: u64,
    /// Whether the time begins again for which the sequence is kept.
    pub renews: bool,
}

/// A take's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The numbers, at most as many as requested. `None`: all are used up, or the sequence is unknown, or its
    /// state is older than the caller's.
    pub numbers: Option<SeqRange>,
    /// The right to fetch the next block. `None`: enough numbers are left, or another node fetches it.
    pub lease: Option<FetchLease>,
}

/// One node's right to fetch a sequence's next block. It ends with the block's offer, or after 250 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchLease(pub(super) i64);

/// A number block that was taken from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The numbers; all above `seen`.
    pub block: SeqRange,
    /// The highest number that was known when the block was taken.
    pub seen: Seq,
    /// The lease under which the block was fetched. It ends with the offer.
    pub lease: FetchLease,
}

/// Issues numbers from blocks, for all nodes.
///
/// Each call is one step in one sequence, atomic and isolated. Sequences may disappear at any time, and all
/// do when the epoch changes. A failed call may have been applied, or may be applied later.
#[async_trait]
pub trait SequenceKeeper: Send + Sync + fmt::Debug + 'static {
    /// Issues a sequence's next numbers, as many as requested or as there are, all above [`Take::seen`]. A
    /// failed call's numbers are lost. Among all callers that find too few numbers, one at a time gets a
    /// lease to fetch a block.
    ///
    /// # Errors
    /// If the keeper does not answer.
    async fn take(&self, name: &SequenceName, take: Take) -> Result<Taken, SharedError>;

    /// Adds a block to those that the sequence has, in any order, or drops it if its numbers are below those
    /// that were issued, or if a second gap would arise. The block replaces what the sequence has if that is
    /// at or below [`Offer::seen`]. Each block is offered once, whatever the answer was.
    ///
    /// # Errors
    /// If the keeper does not answer.
    async fn offer(&self, name: &SequenceName, offer: Offer) -> Result<(), SharedError>;
}
