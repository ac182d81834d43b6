use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{Conversation, ConversationId, ConversationStore, Stored};

use crate::rpc::versions::loaded;

/// Loads conversations from the store into the tiers.
#[derive(Debug)]
pub(super) struct ConversationLoader(pub(super) Arc<dyn ConversationStore>);

#[async_trait]
impl Loader<ConversationId, Conversation> for ConversationLoader {
    async fn load(
        &self,
        id: &ConversationId,
        options: LoadOptions,
    ) -> Result<Loaded<Conversation>, LoadError> {
        let found = self.load_many(std::slice::from_ref(id), options).await?;
        Ok(found.into_iter().next().map_or_else(|| conversation(Stored::Never), |(_, found)| found))
    }

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
        let found = found.map_err(LoadError::new)?.into_iter();
        Ok(found.map(|found| (found.id, conversation(Stored::Live(Arc::new(found))))).collect())
    }
}

fn conversation(stored: Stored<Conversation>) -> Loaded<Conversation> {
    loaded(stored, |conversation| conversation.version)
}
