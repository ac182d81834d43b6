//! Shared bitmaps say which readers have read a notice: they are derived from the marks in the store.
//!
//! A bitmap belongs to one notice and one reader section. Bit 0 says that it is complete; before that, it
//! keeps marks that a running store scan may miss, for 30 s. Marks are merged in; whatever else changes a bit
//! invalidates the bitmap. Any bitmap may be lost at any time.

#[cfg(feature = "redis")]
mod redis;
mod section;

use std::{fmt, time::Duration};

use async_trait::async_trait;
use kith_cache::remote::SharedError;
use kith_store::{ReaderOrdinal, Slot};

#[cfg(feature = "redis")]
pub use redis::RedisBitmaps;
pub use section::{ReaderSection, SectionBits};

/// A fill's ticket: the bitmaps that it fills have all marks from before it, and those that are made until it
/// ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillTicket {
    /// Counts the section's invalidations.
    pub generation: i64,
    /// When the fill began, by the server's clock.
    pub began_ms: i64,
    /// The bitmaps' epoch.
    pub epoch: u64,
}

/// How one bitmap's fill ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitmapFill {
    /// The bitmap is complete, with the number of readers that have its bit.
    Filled(u64),
    /// It took too long: marks from its time may be lost.
    Late,
    /// A bitmap in the section was invalidated in between.
    Changed,
}

/// The storage for bitmaps. Calls are short scripts, and not atomic: a failed call may have been made in
/// part.
#[async_trait]
pub trait ReaderBitmaps: Send + Sync + fmt::Debug + 'static {
    /// Sets these bits for a reader. Must be called after the store has them, and before the mark is
    /// acknowledged.
    ///
    /// # Errors
    /// If the epoch's server does not answer: call [`Self::invalidate`] for these once it does.
    async fn mark(
        &self,
        reader: ReaderOrdinal,
        section: ReaderSection,
        slots: &[Slot],
    ) -> Result<(), SharedError>;

    /// Drops bitmaps, and refuses the fills that run.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn invalidate(&self, section: ReaderSection, slots: &[Slot]) -> Result<(), SharedError>;

    /// Counts the readers in each complete bitmap: by section, then by slot, both in order. One round trip
    /// for up to 250 pairs, each with a section and 100 slots.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn count(
        &self,
        sections: &[ReaderSection],
        slots: &[Slot],
    ) -> Result<Vec<Vec<Option<u64>>>, SharedError>;

    /// Begins fills in a section. Scan the store after this returns, then call [`Self::fill`].
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn begin_fill(&self, section: ReaderSection) -> Result<FillTicket, SharedError>;

    /// Completes bitmaps with the bits that a scan found. Each expires after `kept`. Returns how each ended,
    /// in their order.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn fill(
        &self,
        section: ReaderSection,
        ticket: &FillTicket,
        bitmaps: Vec<(Slot, SectionBits)>,
        kept: Duration,
    ) -> Result<Vec<BitmapFill>, SharedError>;
}
