//! Loads summaries of reactions.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{DocumentKey, ReactionStore, ReactionSummary};

use crate::rpc::versions::loaded_live;

/// Loads summaries from the store into the tiers.
#[derive(Debug)]
pub(super) struct SummaryLoader(pub(super) Arc<dyn ReactionStore>);

#[async_trait]
impl Loader<DocumentKey, ReactionSummary> for SummaryLoader {
    /// Strong reads do not differ: nothing is decided by copies of counts.
    async fn load_many(
        &self,
        keys: &[DocumentKey],
        _options: LoadOptions,
    ) -> Result<Vec<(DocumentKey, Loaded<ReactionSummary>)>, LoadError> {
        loaded_live(self.0.reaction_summaries(keys).await, |summary| summary.key)
    }
}
