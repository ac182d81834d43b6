//! Shared bitmaps of the readers who have read a notice: derived copies of the marks in the store.
//!
//! A bitmap is that of one notice and one section of readers. Bit 0 says that it is complete; before that, it keeps marks that a
//! running scan of the store may miss, for 30 s. Marks are merged in; whatever else changes a bit invalidates the bitmap. Any bitmap
//! may be lost at any time.

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

/// The ticket of a fill: the bitmaps that it fills have all marks from before it, and those that are made until it
/// ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillTicket {
    /// Counts the section's invalidations.
    pub generation: i64,
    /// When the fill began, by the server's clock.
    pub began_ms: i64,
    /// The epoch of the bitmaps.
    pub epoch: u64,
}

/// How a fill of one bitmap ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitmapFill {
    /// It is complete, with the number of readers that have its bit.
    Filled(u64),
    /// It took too long: marks of its time may be lost.
    Late,
    /// A bitmap of the section was invalidated in between.
    Changed,
}

/// The storage of the bitmaps. Calls are short scripts, and not atomic: a failed call may have been made in part.
#[async_trait]
pub trait ReaderBitmaps: Send + Sync + fmt::Debug + 'static {
    /// Sets these bits of a reader. Must be called after the store has them, and before the mark is acknowledged.
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

    /// Counts the readers of each complete bitmap: by section, then by slot, in the order of both. One round trip for up to 250
    /// pairs of a section and 100 slots.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn count(
        &self,
        sections: &[ReaderSection],
        slots: &[Slot],
    ) -> Result<Vec<Vec<Option<u64>>>, SharedError>;

    /// Begins fills of a section. Scan the store after this returns, then call [`Self::fill`].
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn begin_fill(&self, section: ReaderSection) -> Result<FillTicket, SharedError>;

    /// Completes bitmaps with the bits that a scan found. Each expires after `kept`. Returns how each ended, in their order.
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
