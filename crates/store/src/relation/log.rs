//! The log that records what users did about each other.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Edge, Permissions, RelationEventId, StoreError, Timestamp, UserId};

/// An event in the relation between two users. It is in both users' logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationEvent {
    /// Identifies it in a user's log. Contains its time.
    pub id: RelationEventId,
    /// The acting user and the other user.
    pub edge: Edge,
    /// The event's kind.
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
    /// A friendship ended: a user ended one of the two follows, or a block cut it.
    Unfriended,
    /// The other user's permissions were changed.
    SetPermissions {
        /// The previous permissions; `None`: the default.
        before: Option<Permissions>,
        /// The new permissions; `None`: the default.
        after: Option<Permissions>,
    },
}

/// Storage for users' relation logs. [`FollowStore`](crate::FollowStore) and
/// [`BlockStore`](crate::BlockStore) write them with the change itself: before a change is acknowledged both
/// logs have it, once each, and soon if the node dies in between. A user's deletion and a block have no
/// event.
#[async_trait]
pub trait RelationLog: Send + Sync + fmt::Debug + 'static {
    /// Reads a user's log by rising id above `after`, at most `limit`: fewer only at the end. Costs the same
    /// at any depth, plus a small cost for each month between `after` and now. Sees every change that was
    /// acknowledged before.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn relation_log(
        &self,
        user: UserId,
        after: RelationEventId,
        limit: usize,
    ) -> Result<Vec<RelationEvent>, StoreError>;

    /// Deletes up to `limit` entries in all logs that are older than this time; returns how many it deleted.
    /// A store with expiry returns 0.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn forget_relation_log(&self, before: Timestamp, limit: usize) -> Result<u64, StoreError>;
}
