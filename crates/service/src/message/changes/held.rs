//! The write of a change. The only place that makes one: what keeps copies of messages is dropped here.

use std::sync::Arc;

use kith_store::{Changed, ConversationId, MessageChange};

use super::super::{Messages, range::store_error};
use crate::error::Error;

impl Messages {
    /// Writes a change with its event.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn change(
        &self,
        conversation: ConversationId,
        change: MessageChange,
    ) -> Result<Changed, Error> {
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move { store.change(conversation, &change).await });
        self.mutations.run_uncached(write).await.map_err(store_error)
    }
}
