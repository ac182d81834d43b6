//! The cache for one record kind, as domains use it.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
};

use super::{
    inner::{CacheState, LookupResult, PendingRepeats, ReadMode},
    key_state::KeyTable,
    memory::Memory,
    resync_rounds::ResyncRounds,
};
use crate::{
    CacheError, Consistency, Entry, Key, Loader, Namespace, Node, Policy, Token, Version, WriteGuard,
    metrics::counters::Counters,
    remote::{Codec, SharedSide, SharedTier, Sharing},
    source::read::{Source, Store},
};

/// Caches records of one kind. A read asks memory, then the shared tier if there is one, then the store, and
/// fills the tiers that missed.
///
/// After a write on this node is committed through its [`WriteGuard`], or an [`invalidate`](Self::invalidate)
/// returned, no read that begins later on this node returns an older value. Cheap to clone; the clones are
/// one cache. Needs the tokio runtime with time for everything but hits.
///
/// Its copies share the node's memory ([`NodeConfig::memory_bytes`](crate::NodeConfig)): the copies that were
/// not read for longest are evicted first, whichever namespace has them. Expired copies stay until they are
/// evicted or replaced.
pub struct TieredCache<K, V>(pub(crate) Arc<CacheState<K, V>>);

impl<K, V> Clone for TieredCache<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Key, V: Send + Sync + 'static> TieredCache<K, V> {
    /// Creates an empty cache, which is one of the node's namespaces until its last clone is dropped. Metrics
    /// use the recorder that is installed now.
    ///
    /// # Panics
    /// When the node already has a namespace with this name.
    #[must_use]
    pub fn new(node: &Node, policy: Policy<V>, loader: Arc<dyn Loader<K, V>>) -> Self {
        Self::build(node, policy, loader, None)
    }

    /// Like [`new`](Self::new), with the tier that nodes share between memory and the store.
    ///
    /// # Panics
    /// When the node already has a namespace with this name.
    #[must_use]
    pub fn shared(
        node: &Node,
        policy: Policy<V>,
        loader: Arc<dyn Loader<K, V>>,
        sharing: &Sharing,
        codec: Arc<dyn Codec<V>>,
    ) -> Self {
        Self::build(node, policy, loader, Some(SharedSide { sharing: sharing.clone(), codec }))
    }

    fn build(
        node: &Node,
        policy: Policy<V>,
        loader: Arc<dyn Loader<K, V>>,
        shared: Option<SharedSide<V>>,
    ) -> Self {
        let policy = policy.limited(shared.is_some());
        let counters = Arc::new(Counters::default());
        let store = Box::new(Store::new(loader, &policy, Arc::clone(&counters)));
        let source: Box<dyn Source<K, V>> = match &shared {
            None => store,
            Some(side) => Box::new(SharedTier {
                node: node.clone(),
                namespace: policy.name,
                side: side.clone(),
                below: store,
                strict: policy.strict,
                value_bytes_max: policy.value_bytes_max,
                age_max: policy.shared_age_max(),
                counters: Arc::clone(&counters),
            }),
        };
        let inner = Arc::new(CacheState {
            memory: Memory::new(Arc::clone(node.storage())),
            key_table: KeyTable::new(),
            node: node.clone(),
            source,
            shared,
            flights: AtomicU64::new(0),
            pending_repeats: PendingRepeats::new(policy.late_writes),
            resync_rounds: ResyncRounds::default(),
            counters,
            policy,
        });
        let namespace: Arc<dyn Namespace> = Arc::<CacheState<K, V>>::clone(&inner);
        node.register(&namespace);
        Self(inner)
    }

    /// Name of the namespace.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.0.policy.name
    }

    /// Whether a write is acknowledged only when no node uses the previous value.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.0.policy.strict
    }

    /// Returns the record, or `None` if it does not exist. Reads with [`Consistency::Cached`].
    ///
    /// Concurrent callers for one key share one load, which continues when they leave. Cost: a hit allocates
    /// nothing, and may wait for a fill in the same part of memory; otherwise one load.
    ///
    /// # Errors
    /// [`CacheError::Load`], `Timeout`, `Overloaded` or `Panicked` when the store gave no answer and no stale
    /// copy may be served.
    pub async fn get(&self, key: &K) -> Result<Option<Entry<V>>, CacheError> {
        match self.0.lookup(key, None) {
            LookupResult::Served(found) => Ok(found),
            LookupResult::Missed(reason) => Box::pin(self.0.read(key, ReadMode::Cached(reason))).await,
        }
    }

    /// The answer of memory alone, if it may answer: `Some(None)` is a cached absence. Counts as a request if
    /// it answers, and may begin a refresh.
    #[inline]
    #[must_use]
    pub fn hit(&self, key: &K) -> Option<Option<Entry<V>>> {
        match self.0.lookup(key, None) {
            LookupResult::Served(found) => Some(found),
            LookupResult::Missed(_) => None,
        }
    }

    /// Like [`get`](Self::get), with the requested consistency. `AtLeast` waits at most
    /// [`NodeConfig::token_wait`](crate::NodeConfig) for changes on their way, then asks the store; for a
    /// token from another epoch it asks the store at once. `Strong` always asks the store. Neither returns a
    /// stale copy.
    ///
    /// # Errors
    /// Like [`get`](Self::get).
    pub async fn get_with(&self, key: &K, consistency: &Consistency) -> Result<Option<Entry<V>>, CacheError> {
        if self.0.node.may_use_memory(consistency).await {
            self.get(key).await
        } else {
            Box::pin(self.0.read(key, ReadMode::Strong)).await
        }
    }

    /// One answer for each key, in their order; a repeated key is loaded once. The failure of one load does
    /// not affect the keys of others. Stale copies are taken after the soft timeout only if they answer all
    /// missing keys, otherwise at the hard timeout.
    ///
    /// Cost: one load for each [`Policy::batch_chunk`] keys that memory does not answer.
    ///
    /// # Errors
    /// Each answer fails like [`get`](Self::get).
    pub async fn get_many(
        &self,
        keys: &[K],
        consistency: &Consistency,
    ) -> Vec<Result<Option<Entry<V>>, CacheError>> {
        let memory = self.0.node.may_use_memory(consistency).await;
        let hits = if memory { self.0.hits(keys) } else { Vec::new() };
        if hits.len() == keys.len() {
            return hits;
        }
        Box::pin(self.0.read_many(keys, memory, hits)).await
    }

    /// The live copy in memory, if it may be served. Does not count as a request, and begins no refresh.
    #[must_use]
    pub fn peek(&self, key: &K) -> Option<Entry<V>> {
        self.peek_known(key).flatten()
    }

    /// Like [`peek`](Self::peek), but also returns a cached absence, as `Some(None)`.
    #[must_use]
    pub fn peek_known(&self, key: &K) -> Option<Option<Entry<V>>> {
        let now = self.0.node.now();
        let slot = self.0.memory.raw(key).filter(|slot| self.0.is_fresh(slot, now))?;
        Some(slot.into_entry(now, false))
    }

    /// Must be called before a write to these records is sent to the store. Drops their copies. Until the
    /// guard gets its verdict (committed, aborted or unknown), reads go to the store and fill nothing. Writes
    /// to one key may overlap.
    pub async fn begin_write(&self, keys: &[K]) -> WriteGuard<K, V> {
        WriteGuard::begin(&self.0, keys)
    }

    /// Drops the copies that are older than the given versions, or any copy if its key has no version, here
    /// and on the other nodes. Loads that began before do not bring older values back.
    ///
    /// # Errors
    /// [`CacheError::Bus`] if the change could not be published to the other nodes; this node has applied it.
    pub async fn invalidate(&self, keys: &[(K, Option<Version>)]) -> Result<Token, CacheError> {
        let versions = keys.iter().map(|(key, version)| (key, version.filter(|v| v.is_versioned())));
        let changes = self.0.invalidate_here(versions);
        self.0.publish(&changes).await
    }
}

impl<K, V> fmt::Debug for TieredCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TieredCache").field(&self.0.policy.name).finish()
    }
}
