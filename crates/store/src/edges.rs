use std::fmt;

use async_trait::async_trait;

use crate::{Edge, StoreError, Timestamp, UserId};

/// Keeps the places of follows in lists, and the counts of these, in agreement with the follows themselves. All that it does
/// is done in steps of bounded size, from a mark that means nothing but to the store that gave it.
#[async_trait]
pub trait EdgeUpkeep: Send + Sync + fmt::Debug + 'static {
    /// Compares some `limit` follows with their places in both lists, and as many places with their follows. What was written
    /// within the last seconds and is still being written is no difference. With `repair` each difference is mended by
    /// the follow, which is what counts.
    ///
    /// # Errors
    /// When the store cannot answer; [`StoreError::Corrupt`] for a mark that is none.
    async fn verify_edges(
        &self,
        after: Option<&[u8]>,
        limit: usize,
        repair: bool,
    ) -> Result<EdgesVerified, StoreError>;

    /// Counts the lists of some users again, at most some `limit` entries of them, and corrects what is noted otherwise.
    ///
    /// # Errors
    /// As [`Self::verify_edges`].
    async fn rebuild_counts(&self, after: Option<&[u8]>, limit: usize) -> Result<CountsRebuilt, StoreError>;

    /// Ends up to `limit` follows and blocks of a user, from and to it, as by their ordinary writes, and returns the
    /// edges; none: there are no more.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn remove_edges(&self, user: UserId, limit: usize) -> Result<RemovedEdges, StoreError>;

    /// Notes that the edges of a user are to be removed, since its deletion began at `at`: written before the deletion, so
    /// that others do what who deletes may not live to do. Of several notes of a user the latest counts; it may be repeated.
    ///
    /// # Errors
    /// When the store cannot answer; it may be noted then.
    async fn note_removal(&self, user: UserId, at: Timestamp) -> Result<(), StoreError>;

    /// Whether notes of removals are kept. False where there is no store of relations, so that nothing of them has to be removed.
    fn keeps_removals(&self) -> bool {
        true
    }

    /// Users whose removal is noted, each with the moment of a note, the earliest first, at most `limit`. A user with
    /// several notes may be returned once for each.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn removals(&self, limit: usize) -> Result<Vec<(UserId, Timestamp)>, StoreError>;

    /// Forgets what was noted of a user up to `noted`, this moment included; what was noted later stays. Nothing happens where
    /// nothing was noted.
    ///
    /// # Errors
    /// When the store cannot answer; it may be forgotten then.
    async fn end_removal(&self, user: UserId, noted: Timestamp) -> Result<(), StoreError>;
}

/// What a step of [`EdgeUpkeep::verify_edges`] found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EdgesVerified {
    /// How many follows and places were looked at.
    pub checked: u64,
    /// What does not agree.
    pub differences: Vec<EdgeDifference>,
    /// How much of all has been looked at from the beginning to here, about: 0 to 1.
    pub done: f64,
    /// Where to go on; `None`: this was the last step.
    pub next: Option<Vec<u8>>,
}

/// A follow and its places do not agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeDifference {
    /// Which follow.
    pub edge: Edge,
    /// In which way.
    pub kind: EdgeDifferenceKind,
    /// Whether it was mended.
    pub repaired: bool,
}

/// In which way a follow and its places do not agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EdgeDifferenceKind {
    /// It is active, and missing in the list of followed users.
    NotInFollowing,
    /// It is active, and missing in the list of fans.
    NotAmongFans,
    /// It is inactive, or has another position, and the list of followed users has it here.
    StrayInFollowing,
    /// It is inactive, or has another position, and the list of fans has it here.
    StrayAmongFans,
}

/// What a step of [`EdgeUpkeep::rebuild_counts`] did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountsRebuilt {
    /// How many lists were counted.
    pub counted: u64,
    /// How many of them were noted otherwise.
    pub corrected: u64,
    /// Whose lists those are, each user once.
    pub corrected_of: Vec<UserId>,
    /// How much of all has been counted from the beginning to here, about: 0 to 1.
    pub done: f64,
    /// Where to go on; `None`: this was the last step.
    pub next: Option<Vec<u8>>,
}

/// What a step of [`EdgeUpkeep::remove_edges`] ended.
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
