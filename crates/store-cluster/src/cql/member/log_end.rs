//! Reads where a group's log ends, for a change to its members.

use std::sync::{Arc, Weak};

use kith_store::{GroupId, Outcome, Seq, StoreError};

use super::queue::PendingChange;
use crate::cql::{client::error::as_outcome, log_end::not_read, stores::Cql};

impl Cql {
    /// A group's last message number, for a change to its members. Must be read after the roster on which the
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
