//! Reactions in the store, and their summaries through this node's tiers.

use std::{collections::BTreeMap, sync::Arc};

use futures::FutureExt as _;
use kith_cache::{Change, Consistency, Policy, TieredCache, WriteParts};
use kith_store::{
    Applied, ChangedReactions, DocumentKey, REACTION_CHANGES_MAX, ReactionChange, ReactionStore,
    ReactionSummary, StoreError, UserId, Version, document_of,
};

use super::REACTIONS;
use crate::{
    domain_context::DomainContext,
    error::Error,
    rpc::versions::{cache_version, loaded_live},
    write::{
        mutations::{Mutations, RecordWrite},
        record_codec::RecordCodec,
    },
};

/// The reactions to messages. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ReactionRecords {
    cache: TieredCache<DocumentKey, ReactionSummary>,
    pub(super) store: Arc<dyn ReactionStore>,
    mutations: Mutations,
}

impl ReactionRecords {
    /// Creates it with its own namespace in the tiers.
    #[must_use]
    pub fn new(context: DomainContext<'_>, policy: Policy<ReactionSummary>) -> Self {
        let store = Arc::clone(&context.stores.reactions);
        Self {
            // Strong reads do not differ: nothing is decided by copies of counts.
            cache: context.caches.records(policy, RecordCodec::REACTION, &store, |store, keys, _| {
                async move { loaded_live(store.reaction_summaries(keys).await, |summary| summary.key) }
                    .boxed()
            }),
            store,
            mutations: context.mutations.clone(),
        }
    }

    /// Returns the summaries of documents that have one.
    ///
    /// # Errors
    /// The tiers' errors.
    pub(super) async fn get_many(
        &self,
        keys: &[DocumentKey],
        consistency: &Consistency,
    ) -> Result<Vec<Arc<ReactionSummary>>, Error> {
        let found = self.cache.get_many(keys, consistency).await;
        let found = found.into_iter().map(|entry| entry.map_err(|error| Error::cache("reaction", &error)));
        Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().map(|entry| entry.value).collect())
    }

    /// Marks a document's summary for a write that removes reactions with a message's content.
    pub(in crate::message) async fn begin_end(&self, key: DocumentKey) -> WriteParts {
        self.cache.begin_write(&[key]).await.invalidating()
    }

    /// Makes changes in one document, at most [`REACTION_CHANGES_MAX`]. Must be called within
    /// [`Mutations::run`].
    ///
    /// # Errors
    /// The store's errors.
    pub(super) async fn change(
        &self,
        key: DocumentKey,
        changes: Vec<ReactionChange>,
    ) -> Result<Arc<ChangedReactions>, Error> {
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move {
            let record = store.change_reactions(key, &changes).await?;
            Ok(Applied { record, replayed: false })
        });
        let written = self.mutations.write(&self.cache, RecordWrite { key, write, change: put }).await;
        written.map(|committed| committed.record).map_err(store_error)
    }

    /// Removes some of a user's reactions. False: there was none. Must be called within [`Mutations::run`].
    ///
    /// # Errors
    /// The store's errors; it may be repeated.
    pub(in crate::message) async fn remove_some(&self, user: UserId) -> Result<bool, Error> {
        let owned = self.store.reactions_of(user, REACTION_CHANGES_MAX).await.map_err(store_error)?;
        let is_any = !owned.is_empty();
        let mut documents: BTreeMap<DocumentKey, Vec<ReactionChange>> = BTreeMap::new();
        for owned in owned {
            let key = DocumentKey { conversation: owned.conversation, document: document_of(owned.key.seq) };
            documents.entry(key).or_default().push(ReactionChange::Remove(owned.key));
        }
        for (key, changes) in documents {
            self.change(key, changes).await?;
        }
        Ok(is_any)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
pub(super) fn store_error(error: StoreError) -> Error {
    Error::store(REACTIONS, &error)
}

/// A document that never had a reaction has no summary.
fn put(changed: &Arc<ChangedReactions>) -> Change<ReactionSummary> {
    let summary = &changed.summary;
    if summary.version == Version::NONE {
        return Change::Invalidate { version: None };
    }
    Change::Put { value: Arc::new(summary.clone()), version: cache_version(summary.version) }
}
