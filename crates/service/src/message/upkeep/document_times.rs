//! Completes documents from an earlier version, which lack their highest times. Until all documents in a log
//! have them, its messages are not hidden by their age.

use std::sync::Arc;

use kith_store::{CompletedTimes, DocumentKey, MessageUpkeep};

use crate::{error::Error, message::store_error, schema_agreement::SchemaAgreement, write::lease::Lease};

/// The lease's mark once all documents are complete.
const COMPLETE: &[u8] = b"complete";
/// How many documents a step has: each document's messages are read once.
const DOCUMENTS: usize = 250;

/// Completes documents, some in each step.
#[derive(Debug)]
pub(super) struct DocumentTimes {
    store: Arc<dyn MessageUpkeep>,
    /// Nodes with an earlier version make documents without times.
    agreement: SchemaAgreement,
    /// Its mark says whether they are complete.
    lease: Lease,
    next: Option<DocumentKey>,
    /// Documents that were completed since the search began with the first document.
    completed: u64,
    is_done: bool,
}

impl DocumentTimes {
    pub(super) const fn new(store: Arc<dyn MessageUpkeep>, agreement: SchemaAgreement, lease: Lease) -> Self {
        Self { store, agreement, lease, next: None, completed: 0, is_done: false }
    }

    /// Completes some documents. All are complete once a search from the first document on found none that
    /// lacked its times.
    ///
    /// # Errors
    /// The store's errors. The next step goes on.
    pub(super) async fn step(&mut self) -> Result<(), Error> {
        if self.is_done || self.agreement.check().is_err() {
            return Ok(());
        }
        if self.next.is_none() && self.lease.mark().await.map_err(store_error)?.as_deref() == Some(COMPLETE) {
            self.is_done = true;
            return Ok(());
        }
        if !self.lease.is_held().await.map_err(store_error)? {
            return Ok(());
        }
        let CompletedTimes { completed, next } =
            self.store.complete_times(self.next, DOCUMENTS).await.map_err(store_error)?;
        self.completed += completed;
        self.next = next;
        if next.is_none() && std::mem::take(&mut self.completed) == 0 {
            self.is_done = self.lease.set_mark(COMPLETE).await.map_err(store_error)?;
        }
        Ok(())
    }
}
