//! Relation events: how other domains are notified.

use std::fmt::Debug;

use async_trait::async_trait;
use kith_store::Edge;

use crate::error::Error;

/// Is notified when a user declines friend requests without deciding them.
#[async_trait]
pub trait FriendshipListener: Debug + Send + Sync {
    /// `edge.to` ended its friendship with `edge.from`, or blocked it.
    ///
    /// # Errors
    /// The store's errors. The change itself is committed in any case.
    async fn declined(&self, edge: Edge) -> Result<(), Error>;
}

/// Is notified when a user began to follow another user, or ended that by an unfollow: within the call, after
/// it is stored. A repeated request notifies again. A block that ends a follow does not notify: the other
/// user must not learn about it.
pub trait FollowListener: Debug + Send + Sync {
    /// `edge.from` follows `edge.to`. Does not block.
    fn followed(&self, edge: Edge);

    /// `edge.from` no longer follows `edge.to`. Does not block.
    fn unfollowed(&self, edge: Edge);
}

/// Is notified when a user has changed do-not-disturb for another user: within the call, after it is stored.
/// A repeated request notifies again.
pub trait DoNotDisturbListener: Debug + Send + Sync {
    /// `edge.from` has set it about `edge.to`. Does not block.
    fn do_not_disturb_changed(&self, edge: Edge);
}
