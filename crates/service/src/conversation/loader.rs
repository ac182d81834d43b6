//! Loads conversations.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{Conversation, ConversationId, ConversationStore};

use crate::rpc::versions::loaded_live;

/// Loads conversations from the store into the tiers.
#[derive(Debug)]
pub(super) struct ConversationLoader(pub(super) Arc<dyn ConversationStore>);

#[async_trait]
impl Loader<ConversationId, Conversation> for ConversationLoader {
    async fn load_many(
        &self,
        ids: &[ConversationId],
        options: LoadOptions,
    ) -> Result<Vec<(ConversationId, Loaded<Conversation>)>, LoadError> {
        let found = if options.strong {
            self.0.strong_conversations(ids).await
        } else {
            self.0.conversations(ids).await
        };
        loaded_live(found, |conversation| conversation.id)
    }
}
