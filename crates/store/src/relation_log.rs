//! The log of what users did about each other.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Edge, Permissions, RelationEventId, StoreError, Timestamp, UserId};

/// An event of the relation between two users. It is in the logs of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationEvent {
    /// Identifies it in the log of a user. Contains its time.
    pub id: RelationEventId,
    /// The acting user and the other one.
    pub edge: Edge,
    /// The event.
    #[serde(rename = "deed")]
    pub kind: RelationEventKind,
}

impl RelationEvent {
    /// The users in whose logs it is.
    #[must_use]
    pub const fn owners(&self) -> [UserId; 2] {
        [self.edge.from, self.edge.to]
    }

    /// When it expires, if logs are kept for this long.
    #[must_use]
    pub fn forgotten(&self, kept: Duration) -> Timestamp {
        self.id.moment().after(kept)
    }
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelationEventKind {
    /// A friendship ended: one of the two follows was ended, or cut by a block.
    Unfriended,
    /// The permissions of the other user were changed.
    SetPermissions {
        /// The previous permissions; `None`: the default.
        before: Option<Permissions>,
        /// The new permissions; `None`: the default.
        after: Option<Permissions>,
    },
}

/// Storage of the relation logs of users. [`FollowStore`](crate::FollowStore) and [`BlockStore`](crate::BlockStore)
/// write them with the change itself: before a change is acknowledged both logs have it, once each, and soon if the
/// node dies in between. The deletion of a user and a block have no event.
#[async_trait]
pub trait RelationLog: Send + Sync + fmt::Debug + 'static {
    /// Reads the log of a user by rising id above `after`, at most `limit`: fewer only at the end. Costs the same at
    /// any depth, plus a small cost for each month between `after` and now. Sees every change that was acknowledged
    /// before.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn relation_log(
        &self,
        user: UserId,
        after: RelationEventId,
        limit: usize,
    ) -> Result<Vec<RelationEvent>, StoreError>;

    /// Deletes up to `limit` entries of all logs that are older than this time; returns how many it deleted. A store
    /// with expiry returns 0.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn forget_relation_log(&self, before: Timestamp, limit: usize) -> Result<u64, StoreError>;
}
