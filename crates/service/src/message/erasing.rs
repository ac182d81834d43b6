//! How an erasure starts, by a call or with an account, and its progress. The upkeep carries it out
//! (`upkeep/erasures.rs`).

use std::sync::Arc;

use async_trait::async_trait;
use kith_proto::message::v1 as wire;
use kith_store::{Erasure, ErasureStore, Timestamp, UserId};
use tokio::time::Instant;

use super::{Messages, store_error};
use crate::{
    domain_context::DomainContext,
    error::Error,
    user::{AccountCleanup, CLEANED_WITHIN, Cleaned},
    write::mutations::Mutations,
};

/// Starts erasures. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct ErasureStart {
    store: Arc<dyn ErasureStore>,
    mutations: Mutations,
}

/// Erases deleted users' messages. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ErasureCleanup(ErasureStart);

impl Messages {
    /// Starts the erasure of a user's messages, if there is none, or if the last erasure has ended and
    /// `again` is set. Returns its progress.
    pub(super) async fn erase_user(
        &self,
        user: UserId,
        again: bool,
        deadline: Instant,
    ) -> Result<Erasure, Error> {
        let start = self.erasures.clone();
        self.mutations.call(deadline, async move { start.begin(user, again).await }).await
    }
}

impl ErasureStart {
    pub(super) fn new(context: DomainContext<'_>) -> Self {
        Self { store: Arc::clone(&context.stores.erasures), mutations: context.mutations.clone() }
    }

    /// Begins an erasure like [`Messages::erase_user`].
    async fn begin(self, user: UserId, again: bool) -> Result<Erasure, Error> {
        let Self { store, mutations } = self;
        let write = Box::pin(async move { store.begin_erasure(user, again, Timestamp::now()).await });
        mutations.run_uncached(write).await.map_err(store_error)
    }
}

impl ErasureCleanup {
    /// Creates it over a deployment's erasures.
    #[must_use]
    pub fn new(context: DomainContext<'_>) -> Self {
        Self(ErasureStart::new(context))
    }

    async fn begin(&self, user: UserId, again: bool) -> Result<Erasure, Error> {
        let start = self.0.clone();
        let work = async move { start.begin(user, again).await };
        self.0.mutations.run(Instant::now() + CLEANED_WITHIN, Box::pin(work)).await
    }
}

#[async_trait]
impl AccountCleanup for ErasureCleanup {
    /// This step does nothing: the user's messages may still arrive.
    async fn clean_up(&self, _user: UserId) -> Result<Cleaned, Error> {
        Ok(Cleaned::All)
    }

    /// Waits until an erasure that began after the last message arrived has ended.
    async fn finish(&self, user: UserId, settled: Timestamp) -> Result<Cleaned, Error> {
        let erasure = self.begin(user, false).await?;
        if erasure.begun >= settled {
            return Ok(if erasure.ended { Cleaned::All } else { Cleaned::Later });
        }
        // An erasure that a service requested may have left out the last messages.
        if erasure.ended {
            self.begin(user, true).await?;
        }
        Ok(Cleaned::Later)
    }
}

pub(super) fn erasure_to_wire(erasure: &Erasure) -> wire::EraseUserMessagesResponse {
    let state = if erasure.ended { wire::ErasureState::Finished } else { wire::ErasureState::Running };
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    wire::EraseUserMessagesResponse {
        state: state.into(),
        conversations: count(erasure.conversations),
        conversations_done: count(erasure.conversations_done),
        messages: count(erasure.messages),
    }
}
