//! Records of conversations through this node's tiers.

use std::{collections::HashMap, sync::Arc};

use futures::FutureExt as _;
use kith_cache::{Change, Consistency, Policy, TieredCache};
use kith_store::{
    Applied, BATCH_MAX, Conversation, ConversationId, ConversationStore, Seq, StoreError, Version,
};
use tokio::time::Instant;

use super::CONVERSATIONS;
use crate::{
    domain_context::DomainContext,
    error::Error,
    rpc::versions,
    write::mutations::{Committed, Mutations, RecordWrite},
    write::record_codec::RecordCodec,
};

/// The conversation settings that apply to all users, through this node's tiers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ConversationRecords {
    cache: TieredCache<ConversationId, Conversation>,
    store: Arc<dyn ConversationStore>,
    mutations: Mutations,
}

impl ConversationRecords {
    /// Creates it with its own namespace in the tiers, which must be strict.
    #[must_use]
    pub fn new(context: DomainContext<'_>, policy: Policy<Conversation>) -> Self {
        let store = Arc::clone(&context.stores.conversations);
        let cache =
            context.caches.records(policy, RecordCodec::CONVERSATION, &store, |store, ids, options| {
                async move {
                    let strong = options.strong;
                    let found = if strong {
                        store.strong_conversations(ids).await
                    } else {
                        store.conversations(ids).await
                    };
                    versions::loaded_live(found, |conversation| conversation.id)
                }
                .boxed()
            });
        Self { cache, store, mutations: context.mutations.clone() }
    }

    /// Returns the lowest number that any user may read in each conversation, in their order; 0: all. Sees
    /// every acknowledged change.
    pub(crate) async fn min_seqs(&self, ids: &[ConversationId]) -> Result<Vec<Seq>, Error> {
        let found = self.cache.get_many(ids, &Consistency::Cached).await;
        let min_seq = found.into_iter().map(|entry| {
            let entry = entry.map_err(|error| Error::cache(CONVERSATIONS, &error))?;
            Ok(entry.map_or(0, |entry| entry.value.min_seq))
        });
        min_seq.collect()
    }

    /// Raises the lowest number that any user may read; it never falls. When this returns, no node uses the
    /// previous value. `trim`: messages below it may be removed from the store. Returns the record. Must be
    /// called within [`Mutations::run`].
    ///
    /// # Errors
    /// The store's errors; UNAVAILABLE of unknown outcome if other nodes cannot be notified in time.
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
        written.map_err(store_error)
    }

    /// Like [`Self::raise_min_seq`], in a task of its own; messages below it may be removed.
    ///
    /// # Errors
    /// The errors of [`Self::raise_min_seq`].
    pub(crate) async fn raise_min_seq_in_task(
        &self,
        id: ConversationId,
        min_seq: Seq,
        deadline: Instant,
    ) -> Result<(), Error> {
        let this = self.clone();
        let work = async move { this.raise_min_seq(id, min_seq, true).await.map(drop) };
        self.mutations.run(deadline, Box::pin(work)).await
    }

    /// Reads the conversations that have a record from the store, with their lowest numbers: for
    /// conversations that are not in use.
    pub(crate) async fn stored_min_seqs(
        &self,
        ids: &[ConversationId],
    ) -> Result<HashMap<ConversationId, Seq>, Error> {
        let mut min_seqs = HashMap::with_capacity(ids.len());
        for ids in ids.chunks(BATCH_MAX) {
            let found = self.store.conversations(ids).await.map_err(store_error)?;
            min_seqs.extend(found.into_iter().map(|record| (record.id, record.min_seq)));
        }
        Ok(min_seqs)
    }

    /// Reads records with messages that may be removed from the store, by rising text of the id.
    pub(crate) async fn untrimmed(
        &self,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<Conversation>, Error> {
        self.store.untrimmed_conversations(after, limit).await.map_err(store_error)
    }

    /// Records that nothing is left to remove, if the record still has this version. Must be called within
    /// [`Mutations::run`].
    ///
    /// # Errors
    /// The store's errors; UNAVAILABLE of unknown outcome if other nodes cannot be notified in time.
    pub(crate) async fn end_trim(&self, id: ConversationId, version: Version) -> Result<(), Error> {
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move {
            let record = store.end_trim(id, version).await?;
            Ok(Applied { record: record.unwrap_or(Conversation::absent(id)), replayed: false })
        });
        let written = self.mutations.write(&self.cache, RecordWrite { key: id, write, change: put }).await;
        written.map(drop).map_err(store_error)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn store_error(error: StoreError) -> Error {
    Error::store(CONVERSATIONS, &error)
}

fn put(conversation: &Arc<Conversation>) -> Change<Conversation> {
    if conversation.version == Version::NONE {
        return Change::Invalidate { version: None };
    }
    versions::put(conversation)
}
