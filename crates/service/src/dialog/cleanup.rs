//! Cleans up a deleted user's dialogs: they keep the read marks, and hide all present messages.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{ConversationId, MessageStore, Seq, StoreError, UserId};
use tokio::time::Instant;

use super::{DialogRecords, records::store_error};
use crate::{
    domain_context::DomainContext,
    error::Error,
    user::{AccountCleanup, CLEANED_WITHIN, Cleaned},
    write::mutations::Mutations,
};

/// The most dialogs that one write reduces.
const REDUCED_AT_ONCE: usize = 250;
/// The most logs whose ends are read at the same time.
const ENDS_AT_ONCE: usize = 16;

/// Reduces deleted users' dialogs, so that a user who is created again under such an id neither reads nor
/// lists a message that the former user could. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DialogCleanup {
    records: DialogRecords,
    messages: Arc<dyn MessageStore>,
    mutations: Mutations,
}

impl DialogCleanup {
    /// Creates it over a deployment's dialogs.
    #[must_use]
    pub fn new(context: DomainContext<'_>, records: DialogRecords) -> Self {
        let (messages, mutations) = (Arc::clone(&context.stores.messages), context.mutations.clone());
        Self { records, messages, mutations }
    }

    /// Reduces dialogs with the ends of their logs, which are read in a way that a store failover does not
    /// affect.
    async fn reduce(&self, user: UserId, conversations: Vec<ConversationId>) -> Result<(), Error> {
        let end = |conversation| {
            let messages = Arc::clone(&self.messages);
            async move { Ok::<_, StoreError>((conversation, messages.strong_end(conversation).await?)) }
        };
        let ends: Result<Vec<(ConversationId, Seq)>, _> =
            stream::iter(conversations).map(end).buffer_unordered(ENDS_AT_ONCE).try_collect().await;
        self.records.reduce(user, ends.map_err(store_error)?).await
    }
}

#[async_trait]
impl AccountCleanup for DialogCleanup {
    /// Cleans up in a single step: reducing leaves no trace by which another step could continue. It may be
    /// repeated.
    async fn clean_up(&self, user: UserId) -> Result<Cleaned, Error> {
        let mut after = None;
        loop {
            let some = self.records.conversations(user, after, REDUCED_AT_ONCE).await?;
            let is_last = some.len() < REDUCED_AT_ONCE;
            after = some.last().copied();
            if !some.is_empty() {
                let this = self.clone();
                let work = async move { this.reduce(user, some).await };
                self.mutations.run(Instant::now() + CLEANED_WITHIN, Box::pin(work)).await?;
            }
            if is_last {
                return Ok(Cleaned::All);
            }
        }
    }
}
