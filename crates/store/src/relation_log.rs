use std::{fmt, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Edge, Permissions, RelationEventId, StoreError, Timestamp, UserId};

/// Something that one user did about another one. It is in the logs of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationEvent {
    /// Identifies it in the log of a user. Contains its time.
    pub id: RelationEventId,
    /// Who did it, about whom.
    pub edge: Edge,
    /// What.
    pub deed: RelationDeed,
}

impl RelationEvent {
    /// The users in whose logs it is.
    #[must_use]
    pub const fn owners(&self) -> [UserId; 2] {
        [self.edge.from, self.edge.to]
    }

    /// From when on it need not be known any more, where logs are kept for so long.
    #[must_use]
    pub fn forgotten(&self, kept: Duration) -> Timestamp {
        self.id.moment().after(kept)
    }
}

/// What one user did about another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelationDeed {
    /// Both followed each other, and by this they do not any more: one follow was taken back, or cut by a block.
    Unfriended,
    /// What the other one may do was set to something else.
    SetPermissions {
        /// What it was; `None`: what is so by default.
        before: Option<Permissions>,
        /// What it is; `None`: what is so by default.
        after: Option<Permissions>,
    },
}

/// Events between users, for both. [`FollowStore`](crate::FollowStore) and [`BlockStore`](crate::BlockStore) write them
/// with the change itself: before a change is acknowledged both logs have it, once each, and soon if the node dies in
/// between. There is no event for what ends because a user is deleted, nor for a block.
#[async_trait]
pub trait RelationLog: Send + Sync + fmt::Debug + 'static {
    /// Reads the log of a user by rising id above `after`, at most `limit`: fewer only at the end. Costs the same at any depth,
    /// and something for each month between `after` and now. Sees every change that was acknowledged before.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn relation_log(
        &self,
        user: UserId,
        after: RelationEventId,
        limit: usize,
    ) -> Result<Vec<RelationEvent>, StoreError>;

    /// Deletes up to `limit` entries of all logs that are from before this moment; returns how many it deleted. A store
    /// that does so by itself returns 0.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn forget_relation_log(&self, before: Timestamp, limit: usize) -> Result<u64, StoreError>;
}
