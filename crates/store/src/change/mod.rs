//! The kept changes: what other systems read to follow every change.

mod packed;

use std::{collections::BTreeMap, fmt, time::Duration};

use async_trait::async_trait;

use crate::{FeedChange, StoreError, Timestamp};
pub use packed::{pack_changes, unpack_changes};

/// The most changes in one [`ChangesEntry`].
pub const ENTRY_CHANGES_MAX: usize = 256;
/// The most entries that one read returns.
pub const ENTRIES_READ_MAX: usize = 64;

/// Changes of one feed that are kept together. An entry never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesEntry {
    /// The feed's name. All changes to one record are in one feed.
    pub feed: String,
    /// The position in the feed: from 1, contiguous. A later change to a record has a higher position.
    pub number: i64,
    /// When the entry was written, by its writer's clock. For retention and for people: it orders nothing.
    pub written: Timestamp,
    /// The changes in their order, at most [`ENTRY_CHANGES_MAX`].
    pub changes: Vec<FeedChange>,
}

/// What is kept at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangesExtent {
    /// Identifies this past. A new one begins when changes may be missing: after changes were not kept for a
    /// while, after a feed was lost, after a restore. Positions of another generation mean nothing.
    pub generation: u64,
    /// Whether changes to dialogs are kept.
    pub dialogs: bool,
    /// The kept positions of each feed that ever had an entry.
    pub feeds: BTreeMap<String, KeptPositions>,
}

/// The positions of a feed's kept entries. The last entry is never removed, except by a new generation: until
/// its first entry, `first` is one above `last`, the highest number that there was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptPositions {
    /// The lowest number that is kept.
    pub first: i64,
    /// The highest number.
    pub last: i64,
}

/// Storage for changes that are kept for other systems.
#[async_trait]
pub trait ChangesStore: Send + Sync + fmt::Debug + 'static {
    /// Returns what is kept; `None`: changes are not kept. Costs one read for each feed at most.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn changes_extent(&self) -> Result<Option<ChangesExtent>, StoreError>;

    /// Returns a feed's entries above `after`, rising, at most [`ENTRIES_READ_MAX`]. Costs one index read.
    ///
    /// # Errors
    /// If the store cannot answer, or an entry does not decode.
    async fn changes_after(&self, feed: &str, after: i64) -> Result<Vec<ChangesEntry>, StoreError>;

    /// Begins a new generation: removes all entries, so that earlier positions are refused. Atomic for those
    /// who read: they see the old generation, or the new one without entries. Positions continue above the
    /// earlier ones. `dialogs`: whether changes to dialogs are kept.
    ///
    /// # Errors
    /// If the store cannot answer; the new generation may have begun.
    async fn begin_generation(&self, dialogs: bool) -> Result<(), StoreError>;

    /// Ends the keeping of changes: removes the generation and all entries.
    ///
    /// # Errors
    /// If the store cannot answer; it may have ended.
    async fn end_changes(&self) -> Result<(), StoreError>;

    /// Removes entries that were written longer ago than `kept`, and the oldest ones while all take more than
    /// `bytes_max`. Of each feed the last entry stays. Removes a bounded number; returns whether more is left
    /// to remove.
    ///
    /// # Errors
    /// If the store cannot answer; some may be removed.
    async fn trim_changes(&self, kept: Duration, bytes_max: u64) -> Result<bool, StoreError>;
}

/// Writes changes that a feed's reader has read. Only stores whose changes are read from feeds have it: in a
/// single-node store each commit keeps its changes itself.
#[async_trait]
pub trait ChangesWriter: Send + Sync + fmt::Debug + 'static {
    /// Stores an entry. `false`: its number is taken, because another node reads the feed, too; nothing is
    /// changed then. An acknowledged entry survives a failover.
    ///
    /// # Errors
    /// If the store cannot answer; the entry may be stored.
    async fn append_changes(&self, entry: &ChangesEntry) -> Result<bool, StoreError>;
}
