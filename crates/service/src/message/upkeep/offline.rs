//! Removes the entries for users without a receiver, by their age. Also runs if they are off now.

use std::{sync::Arc, time::Duration};

use kith_store::{ConversationId, MessageStore, MessageUpkeep, TrimRemainder, TrimResult};
use tokio::time::Instant;

use super::BEGUN_WITHIN;
use crate::{
    error::Error,
    message::store_error,
    write::{lease::Lease, mutations::Mutations, removal_time::RemovalTime},
};

/// The time between searches for old entries.
const PERIOD: Duration = Duration::from_secs(60);

/// Removes old entries.
#[derive(Debug)]
pub(super) struct OfflineTrims {
    messages: Arc<dyn MessageStore>,
    store: Arc<dyn MessageUpkeep>,
    mutations: Mutations,
    time: RemovalTime,
    kept: Duration,
    /// When nothing was left to remove.
    looked: Option<Instant>,
}

impl OfflineTrims {
    pub(super) const fn new(
        messages: Arc<dyn MessageStore>,
        store: Arc<dyn MessageUpkeep>,
        mutations: Mutations,
        time: RemovalTime,
        kept: Duration,
    ) -> Self {
        Self { messages, store, mutations, time, kept, looked: None }
    }

    /// Removes some old entries from each log, as long as the lease is held.
    pub(super) async fn step(&mut self, lease: &mut Lease) -> Result<(), Error> {
        if self.looked.is_some_and(|looked| looked.elapsed() < PERIOD) {
            return Ok(());
        }
        let mut is_done = true;
        let ends = self.messages.ends(&ConversationId::OFFLINE).await.map_err(store_error)?;
        for (log, _) in ConversationId::OFFLINE.into_iter().zip(ends).filter(|(_, end)| end.seq > 0) {
            if !lease.is_held().await.unwrap_or(false) {
                return Ok(());
            }
            is_done &= self.trim(log).await?.left != TrimRemainder::Some;
        }
        self.looked = is_done.then(Instant::now);
        Ok(())
    }

    async fn trim(&self, log: ConversationId) -> Result<TrimResult, Error> {
        let now = self.time.now().await.map_err(store_error)?;
        let below = self.messages.seq_at(log, now.before(self.kept)).await.map_err(store_error)?;
        let (store, mutations) = (Arc::clone(&self.store), self.mutations.clone());
        let write = Box::pin(async move { store.trim(log, below, now).await });
        let work = async move { mutations.run_uncached(write).await.map_err(store_error) };
        self.mutations.run(Instant::now() + BEGUN_WITHIN, work).await
    }
}
