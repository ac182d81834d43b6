//! Friendship events: how the domain of friend requests is notified.

use std::fmt::Debug;

use async_trait::async_trait;
use kith_store::Edge;

use crate::error::Error;

/// Is notified when a user declines friend requests without deciding them.
#[async_trait]
pub trait FriendshipListener: Debug + Send + Sync {
    /// `edge.to` does not want to be a friend of `edge.from` any more: it blocked it, or ended their friendship.
    ///
    /// # Errors
    /// What a failing store makes. What was done about it stands all the same.
    async fn declined(&self, edge: Edge) -> Result<(), Error>;
}
