//! Removes the messages below the lowest number that users may read, for conversations with `trim`.

use std::sync::Arc;

use kith_store::{Conversation, ConversationId, MessageUpkeep, TrimRemainder, TrimResult};
use tokio::time::Instant;

use super::BEGUN_WITHIN;
use crate::{
    conversation::ConversationRecords,
    error::Error,
    message::store_error,
    metric::MESSAGES_TRIMMED,
    write::{lease::Lease, mutations::Mutations, removal_time::RemovalTime},
};

/// How many conversations a round handles. The next round continues after them.
const CONVERSATIONS: usize = 100;
/// Store steps for one conversation in one round: later rounds continue a longer log.
const STEPS: usize = 50;

/// Removes messages in conversations with `trim`, and unsets it.
#[derive(Debug)]
pub(super) struct Trims {
    store: Arc<dyn MessageUpkeep>,
    conversations: ConversationRecords,
    mutations: Mutations,
    time: RemovalTime,
    /// The last processed conversation; `None`: the next round begins with the first.
    after: Option<ConversationId>,
}

impl Trims {
    pub(super) const fn new(
        store: Arc<dyn MessageUpkeep>,
        conversations: ConversationRecords,
        mutations: Mutations,
        time: RemovalTime,
    ) -> Self {
        Self { store, conversations, mutations, time, after: None }
    }

    /// Removes messages in some conversations, as long as the lease is held. A conversation that fails does
    /// not hold up the others.
    ///
    /// # Errors
    /// The last error.
    pub(super) async fn step(&mut self, lease: &mut Lease) -> Result<(), Error> {
        let some = self.conversations.untrimmed(self.after, CONVERSATIONS).await?;
        let is_last = some.len() < CONVERSATIONS;
        let mut done = Ok(());
        for record in some {
            if !lease.is_held().await.unwrap_or(false) {
                return done;
            }
            self.after = Some(record.id);
            done = self.trim(record).await.and(done);
        }
        if is_last {
            self.after = None;
        }
        done
    }

    async fn trim(&self, record: Conversation) -> Result<(), Error> {
        for _ in 0..STEPS {
            match self.remove(record).await?.left {
                TrimRemainder::Some => {}
                TrimRemainder::TooYoung => break,
                TrimRemainder::Nothing => return self.end(record).await,
            }
        }
        Ok(())
    }

    async fn remove(&self, Conversation { id, min_seq, .. }: Conversation) -> Result<TrimResult, Error> {
        let (store, mutations) = (Arc::clone(&self.store), self.mutations.clone());
        let now = self.time.now().await.map_err(store_error)?;
        let write = Box::pin(async move { store.trim(id, min_seq, now).await });
        let work = async move { mutations.run_uncached(write).await.map_err(store_error) };
        let trimmed = self.mutations.run(Instant::now() + BEGUN_WITHIN, work).await?;
        metrics::counter!(MESSAGES_TRIMMED.name).increment(trimmed.messages);
        Ok(trimmed)
    }

    /// Nothing is left to remove, unless the record was changed meanwhile.
    async fn end(&self, Conversation { id, version, .. }: Conversation) -> Result<(), Error> {
        let records = self.conversations.clone();
        let work = async move { records.end_trim(id, version).await };
        self.mutations.run(Instant::now() + BEGUN_WITHIN, Box::pin(work)).await
    }
}
