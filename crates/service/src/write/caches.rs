//! The tiers before the store: memory, and with several nodes the shared tier.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use kith_cache::{
    Key, ListPolicies, LoadError, LoadOptions, Loaded, Loader, Node, PageLoader, PagedList, Policy,
    TieredCache,
    remote::{Codec, Sharing},
};

/// Creates a node's namespaces. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CacheFactory {
    node: Node,
    sharing: Option<Sharing>,
}

impl CacheFactory {
    /// Creates it with memory alone.
    #[must_use]
    pub const fn alone(node: Node) -> Self {
        Self { node, sharing: None }
    }

    /// Memory, and the tier that nodes share.
    #[must_use]
    pub const fn shared(node: Node, sharing: Sharing) -> Self {
        Self { node, sharing: Some(sharing) }
    }

    /// The node whose memory it is.
    #[must_use]
    pub const fn node(&self) -> &Node {
        &self.node
    }

    /// The shared tier, if there are several nodes.
    #[must_use]
    pub const fn sharing(&self) -> Option<&Sharing> {
        self.sharing.as_ref()
    }

    /// A new namespace.
    ///
    /// # Panics
    /// When the node already has a namespace with this name.
    pub fn namespace<K: Key, V: Send + Sync + 'static>(
        &self,
        policy: Policy<V>,
        loader: Arc<dyn Loader<K, V>>,
        codec: impl Codec<V>,
    ) -> TieredCache<K, V> {
        match &self.sharing {
            None => TieredCache::new(&self.node, policy, loader),
            Some(sharing) => TieredCache::shared(&self.node, policy, loader, sharing, Arc::new(codec)),
        }
    }

    /// A new namespace whose records this function reads from this store.
    ///
    /// # Panics
    /// When the node already has a namespace with this name.
    pub(crate) fn records<S: ?Sized + Send + Sync + 'static, K: Key, V: Send + Sync + 'static>(
        &self,
        policy: Policy<V>,
        codec: impl Codec<V>,
        store: &Arc<S>,
        load: LoadMany<S, K, V>,
    ) -> TieredCache<K, V> {
        self.namespace(policy, Arc::new(StoreLoader { store: Arc::clone(store), load }), codec)
    }

    /// A new list that is read by pages; see [`PagedList`] for its two namespaces.
    ///
    /// # Panics
    /// When the node already has a namespace with one of these names.
    pub fn list<L: Key, P: Key, T: Send + Sync + 'static>(
        &self,
        policies: ListPolicies<T>,
        loader: Arc<dyn PageLoader<L, P, T>>,
        item: impl Codec<T>,
    ) -> PagedList<L, P, T> {
        match &self.sharing {
            None => PagedList::new(&self.node, policies, loader),
            Some(sharing) => PagedList::shared(&self.node, policies, loader, sharing, Arc::new(item)),
        }
    }
}

/// Reads records from a store, as [`Loader::load_many`] does.
type LoadMany<S, K, V> =
    for<'a> fn(&'a S, &'a [K], LoadOptions) -> BoxFuture<'a, Result<Vec<(K, Loaded<V>)>, LoadError>>;

struct StoreLoader<S: ?Sized, K, V> {
    store: Arc<S>,
    load: LoadMany<S, K, V>,
}

#[async_trait]
impl<S: ?Sized + Send + Sync + 'static, K: Key, V: Send + Sync + 'static> Loader<K, V>
    for StoreLoader<S, K, V>
{
    async fn load_many(&self, keys: &[K], options: LoadOptions) -> Result<Vec<(K, Loaded<V>)>, LoadError> {
        (self.load)(&self.store, keys, options).await
    }
}
