//! Maintenance for follows and blocks.

use std::fmt;

use async_trait::async_trait;

use crate::{Edge, StoreError, Timestamp, UserId};

/// Checks and repairs the places that follows have in lists, and the counts of the lists. Works in steps with
/// a bounded size. A mark is opaque, and valid only for the store that returned it.
#[async_trait]
pub trait EdgeUpkeep: Send + Sync + fmt::Debug + 'static {
    /// Compares some `limit` follows with their places in both lists, and as many places with their follows.
    /// A recent write that is still in progress is no difference. With `repair`, each difference is repaired
    /// from the follow, which is authoritative.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Corrupt`] for an invalid mark.
    async fn verify_edges(
        &self,
        after: Option<&[u8]>,
        limit: usize,
        repair: bool,
    ) -> Result<EdgesVerified, StoreError>;

    /// Counts some users' lists again, with about `limit` entries at most, and corrects stored counts that
    /// differ.
    ///
    /// # Errors
    /// Fails like [`Self::verify_edges`].
    async fn rebuild_counts(&self, after: Option<&[u8]>, limit: usize) -> Result<CountsRebuilt, StoreError>;

    /// Ends up to `limit` follows and blocks from and to a user, with their ordinary writes, and returns the
    /// edges. An empty result means that there are no more.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn remove_edges(&self, user: UserId, limit: usize) -> Result<RemovedEdges, StoreError>;

    /// Records that a user's edges are to be removed, since its deletion began at `at`. Written before the
    /// deletion, so that another node completes the removal if this node dies. If a user has several notes,
    /// the latest counts. May be repeated.
    ///
    /// # Errors
    /// If the store cannot answer; the note may exist then.
    async fn note_removal(&self, user: UserId, at: Timestamp) -> Result<(), StoreError>;

    /// Whether notes about removals are kept. False without a store for relations: there is nothing to
    /// remove.
    fn keeps_removals(&self) -> bool {
        true
    }

    /// Users whose removal is noted, each with a note's time, the earliest first, at most `limit`. A user
    /// with several notes may be returned once for each.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn removals(&self, limit: usize) -> Result<Vec<(UserId, Timestamp)>, StoreError>;

    /// Deletes a user's notes up to and including `noted`; later notes are kept. No effect without a note.
    ///
    /// # Errors
    /// If the store cannot answer; the notes may be deleted then.
    async fn end_removal(&self, user: UserId, noted: Timestamp) -> Result<(), StoreError>;
}

/// The result of an [`EdgeUpkeep::verify_edges`] step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EdgesVerified {
    /// How many follows and places were compared.
    pub checked: u64,
    /// The differences.
    pub differences: Vec<EdgeDifference>,
    /// Approximate progress, from 0 to 1.
    pub done: f64,
    /// The mark for the next step; `None`: this was the last step.
    pub next: Option<Vec<u8>>,
}

/// A difference between a follow and its places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeDifference {
    /// The follow that differs.
    pub edge: Edge,
    /// How it differs from its places.
    pub kind: EdgeDifferenceKind,
    /// Whether it was repaired.
    pub repaired: bool,
}

/// How a follow can differ from its places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EdgeDifferenceKind {
    /// The follow is active, and missing in the list of followed users.
    NotInFollowing,
    /// The follow is active, and missing in the list of fans.
    NotAmongFans,
    /// The list of followed users has an entry here, but the follow is inactive or has another position.
    StrayInFollowing,
    /// The list of fans has an entry here, but the follow is inactive or has another position.
    StrayAmongFans,
}

/// The result of an [`EdgeUpkeep::rebuild_counts`] step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountsRebuilt {
    /// How many lists were counted.
    pub counted: u64,
    /// How many stored counts differed.
    pub corrected: u64,
    /// The users whose lists were corrected, each once.
    pub corrected_of: Vec<UserId>,
    /// Approximate progress, from 0 to 1.
    pub done: f64,
    /// The mark for the next step; `None`: this was the last step.
    pub next: Option<Vec<u8>>,
}

/// The result of an [`EdgeUpkeep::remove_edges`] step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedEdges {
    /// Follows that ended.
    pub follows: Vec<Edge>,
    /// Blocks that ended.
    pub blocks: Vec<Edge>,
}

impl RemovedEdges {
    /// Whether nothing was left to end.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.follows.is_empty() && self.blocks.is_empty()
    }
}
