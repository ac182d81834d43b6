//! A user's deletion: its note, and the clean-up by other domains.

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_store::{EdgeUpkeep, Outcome, StoreError, Stores, Timestamp, UserId};
use tokio::sync::mpsc;

use crate::error::Error;

/// Most deletions that wait for their clean-up; others are found by their notes.
const BEGUN_MAX: usize = 1000;
/// Deadline by which a step must begin. It begins at once and runs to its end. Its size bounds its time, so
/// nothing is configured.
pub const CLEANED_WITHIN: Duration = Duration::from_secs(60);

/// A step's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// It ended something, and there may be more.
    Some,
    /// Nothing is left.
    All,
    /// Data is left in a service other than the stores, which does not answer now. Other users need not wait
    /// for it.
    Later,
}

/// A domain whose data ends with its users' accounts.
#[async_trait]
pub trait AccountCleanup: Debug + Send + Sync {
    /// Removes some of a deleted user's data, in a bounded step. Called again until nothing is left, and for
    /// a while after that, for late writes.
    ///
    /// # Errors
    /// The store's errors; it is called again later.
    async fn clean_up(&self, user: UserId) -> Result<Cleaned, Error>;

    /// The last step, when nothing is left in any domain and no late write can arrive; a bounded step. No
    /// write that saw the user was applied after `settled`. Called again until it returns [`Cleaned::All`];
    /// until then the id is held.
    ///
    /// # Errors
    /// The errors of [`Self::clean_up`].
    async fn finish(&self, _user: UserId, _settled: Timestamp) -> Result<Cleaned, Error> {
        Ok(Cleaned::All)
    }
}

/// Notes deletions, and passes them to the clean-up. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Deletions {
    store: Arc<dyn EdgeUpkeep>,
    begun: mpsc::Sender<UserId>,
}

impl Deletions {
    /// Creates it over `stores`, with the channel to the [`cleanup_job`](super::cleanup_job()) for users who
    /// were deleted on this node.
    pub fn new(stores: &Stores) -> (Self, mpsc::Receiver<UserId>) {
        let (begun, receiver) = mpsc::channel(BEGUN_MAX);
        (Self { store: Arc::clone(&stores.edges), begun }, receiver)
    }

    /// Must be called before the deletion is written.
    ///
    /// # Errors
    /// If the store cannot answer. The user must not be deleted then.
    pub(crate) async fn note(&self, user: UserId, at: Timestamp) -> Result<(), StoreError> {
        self.store.note_removal(user, at).await.map_err(|error| match error {
            // The note may be stored, but the deletion is not.
            StoreError::Unavailable { source, .. } => {
                StoreError::Unavailable { outcome: Outcome::NotApplied, source }
            }
            error => error,
        })
    }

    /// Must be called after the deletion is committed. If too many wait, the note is read later.
    pub(crate) fn begin(&self, user: UserId) {
        self.begun.try_send(user).ok();
    }
}
