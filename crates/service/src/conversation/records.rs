//! Records of conversations through the tiers of this node.

use std::sync::Arc;

use kith_cache::{Change, Consistency, Policy, TieredCache};
use kith_store::{Applied, Conversation, ConversationId, ConversationStore, Seq, Version};

use super::{CONVERSATIONS, codec::ConversationCodec, loader::ConversationLoader};
use crate::{
    domain_context::DomainContext,
    error::Error,
    rpc::versions::cache_version,
    write::mutations::{Committed, Mutations, RecordWrite},
};

/// What is set for all users of each conversation, through the tiers of this node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ConversationRecords {
    cache: TieredCache<ConversationId, Conversation>,
    store: Arc<dyn ConversationStore>,
    mutations: Mutations,
}

impl ConversationRecords {
    /// With a namespace of its own in the tiers, which has to be strict.
    #[must_use]
    pub fn new(context: DomainContext<'_>, policy: Policy<Conversation>) -> Self {
        let store = Arc::clone(&context.stores.conversations);
        let loader = Arc::new(ConversationLoader(Arc::clone(&store)));
        Self {
            cache: context.tiers.namespace(policy, loader, ConversationCodec),
            store,
            mutations: context.mutations.clone(),
        }
    }

    /// The lowest number that any user may read of each of these conversations, in their order; 0: all. Never older than what was
    /// acknowledged.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(crate) async fn min_seqs(&self, ids: &[ConversationId]) -> Result<Vec<Seq>, Error> {
        let found = self.cache.get_many(ids, &Consistency::Cached).await;
        let min_seq = found.into_iter().map(|entry| {
            let entry = entry.map_err(|error| Error::cache(CONVERSATIONS, &error))?;
            Ok(entry.map_or(0, |entry| entry.value.min_seq))
        });
        min_seq.collect()
    }

    /// Raises the lowest number that any user may read; it never falls. When this returns, no node uses the previous one. `trim`:
    /// what is below may be removed from the store. Returns the record. Call it within [`Mutations::run`].
    ///
    /// # Errors
    /// What a failing store makes; UNAVAILABLE of unknown outcome if other nodes cannot be notified in time.
    pub(crate) async fn raise_min_seq(
        &self,
        id: ConversationId,
        min_seq: Seq,
        trim: bool,
    ) -> Result<Committed<Conversation>, Error> {
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move {
            let record = store.raise_min_seq(id, min_seq, trim).await?;
            Ok(Applied { record, replayed: false })
        });
        let written = self.mutations.write(&self.cache, RecordWrite { key: id, write, change: put }).await;
        written.map_err(|error| Error::store(CONVERSATIONS, &error))
    }
}

fn put(conversation: &Arc<Conversation>) -> Change<Conversation> {
    if conversation.version == Version::NONE {
        return Change::Invalidate { version: None };
    }
    Change::Put { value: Arc::clone(conversation), version: cache_version(conversation.version) }
}
