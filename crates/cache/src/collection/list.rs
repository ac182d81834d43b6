//! Lists that are read by pages, under epochs.

use std::{fmt, sync::Arc};

use tokio::time::timeout;

use super::{
    ItemsCodec, ListEpoch, Page, PageKey, PageLoader,
    epoch::{EpochCodec, EpochGenerator},
    page::Pages,
};
use crate::{
    CacheError, Consistency, Entry, Key, Loaded, Node, Policy, Tier, TieredCache, Token, WriteParts,
    remote::{Codec, Sharing},
    source::read::LoadRequest,
    testing::rules,
};

/// How often a read is retried because the list changed during the lookup of its page.
const TRIES: usize = 3;

/// Lists behind the tiers, read by pages. `L` names a list, `P` a page in it, by its first entry and length,
/// never by an offset, which would shift under its reader. `P` may also contain a selection, if every change
/// that affects its results is published as a change to the list.
///
/// A list has a random epoch, which is read before the page and is part of the page's key. A change to the
/// list drops its epoch on all nodes. Therefore, after a change is acknowledged ([`WriteParts::committed`]),
/// no read that begins later on this node, or on another node that has applied the change, returns a page
/// from before it. The pages of one epoch show one state of the list, if its writes go through this node. No
/// write has to name the affected pages: they are never found again, and expire.
///
/// Cheap to clone; all clones are the same lists. It takes two of its node's namespaces.
pub struct PagedList<L, P, T> {
    epochs: TieredCache<L, ListEpoch>,
    pages: TieredCache<PageKey<L, P>, Page<T>>,
}

impl<L, P, T> Clone for PagedList<L, P, T> {
    fn clone(&self) -> Self {
        Self { epochs: self.epochs.clone(), pages: self.pages.clone() }
    }
}

/// Policies for the two namespaces that a [`PagedList`] takes.
#[derive(Clone, Debug)]
pub struct ListPolicies<T> {
    /// The policy for epochs; by convention its name is the list's name plus `_epoch`. Its setting for early
    /// refresh is ignored: on a node without peers a refresh would only discard valid pages.
    pub epochs: Policy<ListEpoch>,
    /// The policy for pages; by convention its name ends with `_page`.
    pub pages: Policy<Page<T>>,
}

/// A page and its source.
#[derive(Clone, Debug)]
pub struct PageAnswer<T> {
    /// The page, without a version.
    pub entry: Entry<Page<T>>,
    /// Its epoch; `None`: it was read from the store for this read only.
    pub epoch: Option<ListEpoch>,
}

impl<L: Key, P: Key, T: Send + Sync + 'static> PagedList<L, P, T> {
    /// Creates the lists of a node without peers.
    ///
    /// # Panics
    /// When the node already has a namespace with one of the names.
    #[must_use]
    pub fn new(node: &Node, policies: ListPolicies<T>, loader: Arc<dyn PageLoader<L, P, T>>) -> Self {
        let ListPolicies { epochs, pages } = policies;
        Self {
            epochs: TieredCache::new(node, without_early_refresh(&epochs), Arc::new(EpochGenerator)),
            pages: TieredCache::new(node, pages, Arc::new(Pages(loader))),
        }
    }

    /// Creates the lists with the shared tier: all nodes then use the same epoch for a list, and one page
    /// load is enough for all. `item` encodes an item.
    ///
    /// # Panics
    /// When the node already has a namespace with one of the names.
    #[must_use]
    pub fn shared(
        node: &Node,
        policies: ListPolicies<T>,
        loader: Arc<dyn PageLoader<L, P, T>>,
        sharing: &Sharing,
        item: Arc<dyn Codec<T>>,
    ) -> Self {
        let ListPolicies { epochs, pages } = policies;
        let (loader, codec) = (Arc::new(Pages(loader)), Arc::new(ItemsCodec::new(item)));
        Self {
            epochs: TieredCache::shared(
                node,
                without_early_refresh(&epochs),
                Arc::new(EpochGenerator),
                sharing,
                Arc::new(EpochCodec),
            ),
            pages: TieredCache::shared(node, pages, loader, sharing, codec),
        }
    }

    /// Reads a page of the list. `AtLeast` and `Strong` act as in [`TieredCache::get_with`]; a strong read
    /// fills nothing.
    ///
    /// While a write to the list is in progress on this node, the store answers. Cost otherwise: no load for
    /// a hit; one load for a miss, which others may share.
    ///
    /// # Errors
    /// [`CacheError::Load`], `Timeout`, `Overloaded` or `Panicked` if the store gave no answer and no stale
    /// page from the same epoch may be served.
    pub async fn page(
        &self,
        list: &L,
        position: &P,
        consistency: &Consistency,
    ) -> Result<PageAnswer<T>, CacheError> {
        if self.pages.0.node.may_use_memory(consistency).await {
            for _ in 0..TRIES {
                let Some(epoch) = self.epoch(list).await else { break };
                let key = PageKey { epoch, position: position.clone(), list: list.clone() };
                let entry = self.pages.get(&key).await?;
                // The list may have changed between the two: then the page may have a later state than others
                // under the epoch.
                let still = !rules::list_confirmed() || self.epoch_now(list).await == Some(epoch);
                if let Some(entry) = entry.filter(|_| still) {
                    return Ok(PageAnswer { entry, epoch: Some(epoch) });
                }
            }
        }
        let entry = Box::pin(self.read(list, position)).await?;
        Ok(PageAnswer { entry, epoch: None })
    }

    /// Must be called before a write that may change these lists is sent to the store. Drops their epochs.
    /// Until the guard gets its verdict, the lists are read from the store. Writes of one list may overlap.
    pub async fn begin_write(&self, lists: &[L]) -> WriteParts {
        self.epochs.begin_write(lists).await.invalidating()
    }

    /// Drops the epochs of these lists, here and on the other nodes, in one publication.
    ///
    /// # Errors
    /// [`CacheError::Bus`] if the change could not be published to the other nodes; this node has applied it.
    pub async fn invalidate(&self, lists: &[L]) -> Result<Token, CacheError> {
        let unversioned: Vec<_> = lists.iter().map(|list| (list.clone(), None)).collect();
        self.epochs.invalidate(&unversioned).await
    }

    /// The epoch for lookups of pages. `None`: no epoch is stored, so pages under it would never be found.
    async fn epoch(&self, list: &L) -> Option<ListEpoch> {
        let entry = self.epochs.get(list).await.ok()??;
        let epoch = *entry.value;
        let lasts = match entry.tier {
            Tier::Memory => true,
            // Between commit and publication, other nodes read pages of the new state under the old epoch.
            Tier::Redis => !self.is_written(list),
            // It was created for this read, and stored unless a change came in between.
            Tier::Store => self.cached_epoch(list) == Some(epoch) || !rules::list_epoch_kept(),
        };
        lasts.then_some(epoch)
    }

    /// Like [`Self::epoch`], with only a lookup in memory if it is there.
    async fn epoch_now(&self, list: &L) -> Option<ListEpoch> {
        match self.cached_epoch(list) {
            Some(epoch) => Some(epoch),
            None => self.epoch(list).await,
        }
    }

    fn cached_epoch(&self, list: &L) -> Option<ListEpoch> {
        self.epochs.peek(list).map(|entry| *entry.value)
    }

    fn is_written(&self, list: &L) -> bool {
        self.epochs.0.key_table.lock(list).get(list).is_some_and(|progress| progress.active_writers > 0)
    }

    /// The present page in the store.
    async fn read(&self, list: &L, position: &P) -> Result<Entry<Page<T>>, CacheError> {
        let inner = &self.pages.0;
        inner.counters.misses.add(1);
        let key = PageKey { epoch: ListEpoch::NONE, position: position.clone(), list: list.clone() };
        let keys = [&key];
        let load = inner.fetch(&keys, LoadRequest::STRONG);
        let outcomes = timeout(inner.policy.hard_timeout, load).await.map_err(|_| CacheError::Timeout)?;
        // There is an outcome for each key, and a page is never absent.
        let outcome = outcomes.into_iter().next().ok_or(CacheError::Panicked)?;
        let Loaded::Found { value, version } = outcome.result? else { return Err(CacheError::Panicked) };
        let age = inner.node.now().since(outcome.read_at);
        Ok(Entry { value, version, tier: outcome.tier, age, stale: false })
    }
}

fn without_early_refresh(policy: &Policy<ListEpoch>) -> Policy<ListEpoch> {
    Policy { early_refresh: 1.0, ..policy.clone() }
}

impl<L, P, T> fmt::Debug for PagedList<L, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PagedList").field(&self.pages).finish()
    }
}
