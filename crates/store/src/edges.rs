//! Upkeep of follows and blocks.

use std::fmt;

use async_trait::async_trait;

use crate::{Edge, StoreError, Timestamp, UserId};

/// Checks and repairs the places of follows in lists, and the counts of the lists. Works in steps of bounded size. A
/// mark is opaque, and valid only for the store that returned it.
#[async_trait]
pub trait EdgeUpkeep: Send + Sync + fmt::Debug + 'static {
    /// Compares some `limit` follows with their places in both lists, and as many places with their follows. A write of
    /// the last seconds that is still in progress is no difference. With `repair`, each difference is repaired from the
    /// follow, which is authoritative.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Corrupt`] for an invalid mark.
    async fn verify_edges(
        &self,
        after: Option<&[u8]>,
        limit: usize,
        repair: bool,
    ) -> Result<EdgesVerified, StoreError>;

    /// Counts the lists of some users again, with about `limit` entries at most, and corrects stored counts that
    /// differ.
    ///
    /// # Errors
    /// As [`Self::verify_edges`].
    async fn rebuild_counts(&self, after: Option<&[u8]>, limit: usize) -> Result<CountsRebuilt, StoreError>;

    /// Ends up to `limit` follows and blocks from and to a user, with their ordinary writes, and returns the edges. An
    /// empty result means that there are no more.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn remove_edges(&self, user: UserId, limit: usize) -> Result<RemovedEdges, StoreError>;

    /// Notes that the edges of a user are to be removed, since its deletion began at `at`. Written before the deletion,
    /// so that another node completes the removal if this one dies. Of several notes of a user the latest counts. May
    /// be repeated.
    ///
    /// # Errors
    /// If the store cannot answer; the note may exist then.
    async fn note_removal(&self, user: UserId, at: Timestamp) -> Result<(), StoreError>;

    /// Whether notes of removals are kept. False without a store of relations: there is nothing to remove.
    fn keeps_removals(&self) -> bool {
        true
    }

    /// Users whose removal is noted, each with the time of a note, the earliest first, at most `limit`. A user with
    /// several notes may be returned once for each.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn removals(&self, limit: usize) -> Result<Vec<(UserId, Timestamp)>, StoreError>;

    /// Deletes the notes of a user up to and including `noted`; later notes are kept. No effect without a note.
    ///
    /// # Errors
    /// If the store cannot answer; the notes may be deleted then.
    async fn end_removal(&self, user: UserId, noted: Timestamp) -> Result<(), StoreError>;
}

/// The result of a step of [`EdgeUpkeep::verify_edges`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EdgesVerified {
    /// Number of follows and places that were compared.
    pub checked: u64,
    /// The differences.
    pub differences: Vec<EdgeDifference>,
    /// Approximate progress, from 0 to 1.
    pub done: f64,
    /// Mark of the next step; `None`: this was the last one.
    pub next: Option<Vec<u8>>,
}

/// A difference between a follow and its places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeDifference {
    /// The follow.
    pub edge: Edge,
    /// The kind of difference.
    pub kind: EdgeDifferenceKind,
    /// Whether it was repaired.
    pub repaired: bool,
}

/// The kinds of differences between a follow and its places.
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

/// The result of a step of [`EdgeUpkeep::rebuild_counts`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountsRebuilt {
    /// Number of lists that were counted.
    pub counted: u64,
    /// Number of stored counts that differed.
    pub corrected: u64,
    /// The users of the corrected lists, each once.
    pub corrected_of: Vec<UserId>,
    /// Approximate progress, from 0 to 1.
    pub done: f64,
    /// Mark of the next step; `None`: this was the last one.
    pub next: Option<Vec<u8>>,
}

/// The result of a step of [`EdgeUpkeep::remove_edges`].
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
