//! Removes deleted users' reactions.

use async_trait::async_trait;
use kith_store::UserId;
use tokio::time::Instant;

use super::ReactionRecords;
use crate::{
    domain_context::DomainContext,
    error::Error,
    user::{AccountCleanup, CLEANED_WITHIN, Cleaned},
    write::mutations::Mutations,
};

/// Removes deleted users' reactions. A user's id is held until none is left, so a user who is created again
/// under such an id owns none. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ReactionCleanup {
    records: ReactionRecords,
    mutations: Mutations,
}

impl ReactionCleanup {
    /// Creates it over a deployment's reactions.
    #[must_use]
    pub fn new(context: DomainContext<'_>, records: ReactionRecords) -> Self {
        Self { records, mutations: context.mutations.clone() }
    }
}

#[async_trait]
impl AccountCleanup for ReactionCleanup {
    async fn clean_up(&self, user: UserId) -> Result<Cleaned, Error> {
        let records = self.records.clone();
        let work = async move { records.remove_some(user).await };
        let is_any = self.mutations.run(Instant::now() + CLEANED_WITHIN, Box::pin(work)).await?;
        Ok(if is_any { Cleaned::Some } else { Cleaned::All })
    }
}
