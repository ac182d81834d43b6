//! The ends of group logs, which decide from and to where members read. The logs are in another store.

use std::fmt;

use async_trait::async_trait;
use kith_store::{ConversationId, GroupId, MessageStore, Outcome, Seq, StoreError};

use super::client::error::unavailable;

/// Reads the ends of group logs.
#[async_trait]
pub trait LogEnds: Send + Sync + fmt::Debug + 'static {
    /// Reads the end of a group's log; 0: it has no message. Sees every message that was acknowledged before
    /// it began, also right after a failover.
    ///
    /// # Errors
    /// Fails if the store with the logs cannot answer.
    async fn log_end(&self, group: GroupId) -> Result<Seq, StoreError>;
}

#[async_trait]
impl<S: MessageStore> LogEnds for S {
    async fn log_end(&self, group: GroupId) -> Result<Seq, StoreError> {
        self.strong_end(ConversationId::Group(group)).await
    }
}

/// The error for a change that needs the end of the log, if it was not read.
pub(super) fn not_read() -> StoreError {
    unavailable("the end of the log of the group is not known", Outcome::NotApplied)
}
