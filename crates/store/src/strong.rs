//! Strong reads of users and groups.

use std::fmt;

use async_trait::async_trait;

use crate::{Group, GroupId, StoreError, Stored, User, UserId};

/// Reads that see every write that was acknowledged before they began, whichever node wrote, and whichever server has
/// become the primary since: those of each record are linearizable (ADR 0014). More expensive than the reads of
/// [`UserStore`](crate::UserStore) and [`GroupStore`](crate::GroupStore), which for some seconds after a failover may
/// return the previous value.
#[async_trait]
pub trait StrongReads: Send + Sync + fmt::Debug + 'static {
    /// As [`UserStore::users`](crate::UserStore::users).
    ///
    /// # Errors
    /// As there, and if no majority of the servers answers.
    async fn strong_users(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<User>)>, StoreError>;

    /// As [`GroupStore::groups`](crate::GroupStore::groups).
    ///
    /// # Errors
    /// As there, and if no majority of the servers answers.
    async fn strong_groups(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Stored<Group>)>, StoreError>;
}
