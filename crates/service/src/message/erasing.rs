//! The start of an erasure, and how far it is. It is done by the upkeep (`upkeep/erasures.rs`).

use std::sync::Arc;

use kith_proto::message::v1 as wire;
use kith_store::{Erasure, Timestamp, UserId};
use tokio::time::Instant;

use super::{Messages, store_error};
use crate::error::Error;

impl Messages {
    /// Starts the erasure of the messages of a user, if there is none, or if the last one has ended and `again` is set. Returns how
    /// far it is.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn erase_user(
        &self,
        user: UserId,
        again: bool,
        deadline: Instant,
    ) -> Result<Erasure, Error> {
        let (store, mutations) = (Arc::clone(&self.erasures), self.mutations.clone());
        let write = Box::pin(async move { store.begin_erasure(user, again, Timestamp::now()).await });
        let work = async move { mutations.run_uncached(write).await.map_err(store_error) };
        self.mutations.call(deadline, work).await
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
