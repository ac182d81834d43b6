//! Strong reads for users and groups.

use std::fmt;

use async_trait::async_trait;

use crate::{Group, GroupId, StoreError, Stored, User, UserId};

/// Reads that see every write that was acknowledged before they began, whichever node wrote, and whichever
/// server has become the primary since: each record's reads are linearizable (ADR 0014). More expensive than
/// the reads in [`UserStore`](crate::UserStore) and [`GroupStore`](crate::GroupStore), which for some seconds
/// after a failover may return the previous value.
#[async_trait]
pub trait StrongReads: Send + Sync + fmt::Debug + 'static {
    /// Reads like [`UserStore::users`](crate::UserStore::users).
    ///
    /// # Errors
    /// Fails like [`UserStore::users`](crate::UserStore::users), and if no majority of the servers answers.
    async fn strong_users(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<User>)>, StoreError>;

    /// Reads like [`GroupStore::groups`](crate::GroupStore::groups).
    ///
    /// # Errors
    /// Fails like [`GroupStore::groups`](crate::GroupStore::groups), and if no majority of the servers
    /// answers.
    async fn strong_groups(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Stored<Group>)>, StoreError>;
}
