//! The ends of group logs, which decide from and to where members read. The logs are in another store.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use async_trait::async_trait;
use kith_store::{ConversationId, GroupId, MessageStore, Outcome, Seq, StoreError};

use super::{
    client::error::{as_outcome, unavailable},
    member::queue::PendingChange,
    stores::Cql,
};

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

impl Cql {
    /// Sets the store with the logs, once. Without it no user can join or leave.
    pub(crate) fn set_log_ends(&self, ends: Weak<dyn LogEnds>) {
        self.log_ends.set(ends).ok();
    }

    /// The end of a group's log, for a change to its members. Must be read after the roster on which the
    /// write is conditional, so that ends never decrease in the order of the changes.
    pub(super) async fn log_end(&self, group: GroupId) -> Result<Seq, StoreError> {
        let ends = match &self.client.options.log_ends {
            Some(ends) => Arc::clone(ends),
            None => self.log_ends.get().and_then(Weak::upgrade).ok_or_else(not_read)?,
        };
        ends.log_end(group).await.map_err(|error| as_outcome(error, Outcome::NotApplied))
    }

    /// Reads the end once for all these changes, if any needs it.
    pub(super) async fn log_end_for(
        &self,
        group: GroupId,
        queued: &[PendingChange],
    ) -> Result<Seq, StoreError> {
        if queued.iter().any(|pending| pending.change.reads_end()) {
            self.log_end(group).await
        } else {
            Err(not_read())
        }
    }
}

/// The error for a change that needs the end of the log, if it was not read.
pub(super) fn not_read() -> StoreError {
    unavailable("the end of the log of the group is not known", Outcome::NotApplied)
}
