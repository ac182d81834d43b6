//! The deletion of a user: noted before it is written, and what other domains do about it.

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_store::{EdgeUpkeep, Outcome, StoreError, Stores, Timestamp, UserId};
use tokio::sync::mpsc;

use crate::error::Error;

/// Most deletions that wait to be begun with; others are found by their notes.
const BEGUN_MAX: usize = 1000;
/// By when a step has begun; it does at once, and then runs to its end. Its size bounds it, so that nothing is configured.
pub const CLEANED_WITHIN: Duration = Duration::from_secs(60);

/// What a step left of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// It ended something, and there may be more.
    Some,
    /// Nothing is left.
    All,
    /// Something is stored in a service other than the stores that does not answer now. Other users need not wait for
    /// it.
    Later,
}

/// A domain that keeps something of users, which ends with their accounts.
#[async_trait]
pub trait AccountCleanup: Debug + Send + Sync {
    /// Ends some of what it keeps of a deleted user, a bounded step. Is asked again until nothing is left, and again for a
    /// while after that, for what came in late.
    ///
    /// # Errors
    /// Those of a failing store; it is asked again later.
    async fn clean_up(&self, user: UserId) -> Result<Cleaned, Error>;

    /// Does what follows when nothing is left in any domain and nothing comes in any more, a bounded step. No write that saw the
    /// user came in after `settled`. Is asked again until it answers [`Cleaned::All`]; until then the id is held.
    ///
    /// # Errors
    /// As [`Self::clean_up`].
    async fn finish(&self, _user: UserId, _settled: Timestamp) -> Result<Cleaned, Error> {
        Ok(Cleaned::All)
    }
}

/// Notes deletions, and hands them to the clean-up. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Deletions {
    store: Arc<dyn EdgeUpkeep>,
    begun: mpsc::Sender<UserId>,
}

impl Deletions {
    /// Over `stores`, with the channel by which a [`CleanupJob`](super::CleanupJob) learns of users who were deleted here.
    pub fn new(stores: &Stores) -> (Self, mpsc::Receiver<UserId>) {
        let (begun, told) = mpsc::channel(BEGUN_MAX);
        (Self { store: Arc::clone(&stores.edges), begun }, told)
    }

    /// To be called before the deletion is written.
    ///
    /// # Errors
    /// When the store cannot answer. Nothing is to be deleted then.
    pub(crate) async fn note(&self, user: UserId, at: Timestamp) -> Result<(), StoreError> {
        self.store.note_removal(user, at).await.map_err(|error| match error {
            // The note may stand; the deletion, which callers ask about, does not.
            StoreError::Unavailable { source, .. } => {
                StoreError::Unavailable { outcome: Outcome::NotApplied, source }
            }
            error => error,
        })
    }

    /// Call it after the deletion is committed. If too many wait, the note is read in its turn.
    pub(crate) fn begin(&self, user: UserId) {
        self.begun.try_send(user).ok();
    }
}
