//! Removes a user's content from one document and its copies.
//!
//! Invariant: after the removal no read shows it. The window is held from before the write until after it,
//! and documents in the tiers are strict.

use std::sync::Arc;

use kith_store::{DocumentKey, Erasure, MessageUpkeep};
use tokio::time::Instant;

use super::BEGUN_WITHIN;
use crate::{
    error::{Error, Reason},
    message::{Logs, store_error},
    metric::MESSAGES_ERASED,
    write::mutations::Mutations,
};

/// Removes contents. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct ContentRemoval {
    store: Arc<dyn MessageUpkeep>,
    logs: Logs,
    mutations: Mutations,
}

impl ContentRemoval {
    pub(super) const fn new(store: Arc<dyn MessageUpkeep>, logs: Logs, mutations: Mutations) -> Self {
        Self { store, logs, mutations }
    }

    /// Removes the erased user's content from one document. Returns how many messages it was.
    ///
    /// # Errors
    /// UNAVAILABLE, and nothing is removed, if Redis does not answer; else errors of the store. It may be
    /// repeated.
    pub(super) async fn remove(&self, key: DocumentKey, erasure: &Erasure) -> Result<u64, Error> {
        let (this, erasure) = (self.clone(), *erasure);
        let work = async move { this.removed(key, erasure).await };
        let removed = self.mutations.run(Instant::now() + BEGUN_WITHIN, Box::pin(work)).await?;
        metrics::counter!(MESSAGES_ERASED.name).increment(removed);
        Ok(removed)
    }

    async fn removed(self, key: DocumentKey, Erasure { user, begun, .. }: Erasure) -> Result<u64, Error> {
        let Self { store, logs, mutations } = self;
        let hold = logs.windows.hold(key.conversation).await.map_err(|_| windows_unavailable())?;
        let erase = async move { store.erase_document(key.conversation, key.first(), user, begun).await };
        // After an unknown outcome the hold is kept until its end. The erasure processes the document again.
        let reactions = logs.begin_reactions_end(key).await;
        let erased = mutations.write_all_with(&logs.documents, vec![key], reactions, Box::pin(erase)).await;
        let erased = erased.map_err(store_error)?;
        logs.release(hold).await.map_err(store_error)?;
        Ok(*erased.record)
    }
}

fn windows_unavailable() -> Error {
    Error::new(Reason::StoreUnavailable, "messages cannot be erased now: Redis does not answer")
}

#[cfg(test)]
mod tests {
    use kith_store::{Timestamp, UserId};

    use super::*;
    use crate::message::{
        sample::{group, mutations},
        steps::{RecordedStep, StepFault, StepRecorder, outcome_is_unknown},
    };

    /// Removes a user's content from a document. Returns the steps, and how many messages it was.
    async fn removed(fault: Option<StepFault>) -> (Vec<RecordedStep>, Result<u64, Error>) {
        let steps = StepRecorder::new(fault);
        let store: Arc<dyn MessageUpkeep> = Arc::<StepRecorder>::clone(&steps);
        let removal = ContentRemoval::new(store, steps.logs(), mutations());
        let (user, key) = (UserId::new(7).unwrap(), DocumentKey { conversation: group(9), document: 2 });
        let removed = removal.remove(key, &Erasure::first(user, None, Timestamp(1))).await;
        (steps.take(), removed)
    }

    #[tokio::test(start_paused = true)]
    async fn window_is_held_around_an_erasure() {
        let (steps, removed) = removed(None).await;
        assert_eq!(steps, ["hold", "write", "release"].map(|step| (0, step)));
        assert_eq!(removed.unwrap(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_erased_without_a_hold() {
        let (steps, removed) = removed(Some(StepFault::Hold)).await;
        assert_eq!(steps, [(0, "hold")]);
        assert!(!outcome_is_unknown(removed.unwrap_err()));
    }

    #[tokio::test(start_paused = true)]
    async fn hold_outlives_an_unknown_erasure() {
        let (steps, removed) = removed(Some(StepFault::PerhapsWritten)).await;
        assert_eq!(steps, ["hold", "write"].map(|step| (0, step)));
        assert!(outcome_is_unknown(removed.unwrap_err()));
    }

    #[tokio::test(start_paused = true)]
    async fn erasure_does_not_go_on_without_its_release() {
        let (steps, removed) = removed(Some(StepFault::Release)).await;
        assert_eq!(steps, ["hold", "write", "release"].map(|step| (0, step)));
        assert!(outcome_is_unknown(removed.unwrap_err()));
    }
}
