//! The source below memory: the store, or the shared tier with the store behind it.

use std::{collections::HashMap, sync::Arc};

use super::admission::{AdmissionQueue, Permit};
use crate::{
    CacheError, Key, LoadError, LoadOptions, Loaded, Loader, Tier, TierCopy, Version,
    metrics::{counters::Counters, exposition::LoadSeconds},
    spans::Step,
};

/// A record from the tier below memory.
#[derive(Debug)]
pub(crate) struct Fetched<V> {
    pub(crate) loaded: Loaded<V>,
    /// The tier that gave it.
    pub(crate) tier: Tier,
    /// Whether memory may keep it: false if it may have changed since it was read.
    pub(crate) cacheable: bool,
}

/// The requirements of the answers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadRequest<'a> {
    /// The records' known versions, in the order of the keys; empty if none is known.
    pub(crate) floors: &'a [Version],
    /// See [`LoadOptions::strong`].
    pub(crate) strong: bool,
}

impl LoadRequest<'_> {
    /// A read of the store, without known versions.
    pub(crate) const STRONG: Self = Self { floors: &[], strong: true };

    /// The known version of the record at this index.
    pub(crate) fn floor(&self, index: usize) -> Version {
        self.floors.get(index).copied().unwrap_or_default()
    }

    fn options(&self) -> LoadOptions {
        let min_version = self.floors.iter().copied().max().unwrap_or_default();
        LoadOptions { min_version, strong: self.strong }
    }
}

/// The source that memory reads after a miss.
#[async_trait::async_trait]
pub(crate) trait Source<K, V>: Send + Sync + 'static {
    /// One answer for each key, in their order; the keys are distinct.
    async fn fetch(&self, keys: &[K], request: LoadRequest<'_>) -> Result<Vec<Fetched<V>>, CacheError>;

    /// Its own copy of a record, for operators, without side effects. `None`: it has no copies, or does not
    /// answer.
    async fn stored_copy(&self, _key: &K) -> Option<TierCopy> {
        None
    }
}

/// Only the store, with a limit of concurrent loads.
pub(crate) struct Store<K, V> {
    namespace: &'static str,
    loader: Arc<dyn Loader<K, V>>,
    /// The counter of running loads.
    admission: AdmissionQueue,
    counters: Arc<Counters>,
    load_seconds: LoadSeconds,
}

impl<K: Key, V: Send + Sync + 'static> Store<K, V> {
    pub(crate) fn new(
        loader: Arc<dyn Loader<K, V>>,
        policy: &crate::Policy<V>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            namespace: policy.name,
            loader,
            admission: AdmissionQueue::new(policy.loads_in_flight, policy.load_queue_wait),
            counters,
            load_seconds: LoadSeconds::new(policy.name),
        }
    }

    async fn load(&self, keys: &[K], options: LoadOptions) -> Result<Vec<Loaded<V>>, LoadError> {
        if let [key] = keys {
            return self.loader.load(key, options).await.map(|loaded| vec![loaded]);
        }
        let answer = self.loader.load_many(keys, options).await?;
        let mut found: HashMap<K, Loaded<V>, ahash::RandomState> = answer.into_iter().collect();
        let never = || Loaded::Absent { version: Version::UNVERSIONED };
        Ok(keys.iter().map(|key| found.remove(key).unwrap_or_else(never)).collect())
    }

    async fn permit(&self) -> Result<Permit<'_>, CacheError> {
        let permit = self.admission.acquire().await;
        permit.ok_or_else(|| {
            self.counters.shed.add(1);
            CacheError::Overloaded
        })
    }
}

#[async_trait::async_trait]
impl<K: Key, V: Send + Sync + 'static> Source<K, V> for Store<K, V> {
    async fn fetch(&self, keys: &[K], request: LoadRequest<'_>) -> Result<Vec<Fetched<V>>, CacheError> {
        let permit = self.permit().await?;
        let _loading = Loading::begin(&self.counters);
        let load = self.load(keys, request.options());
        let loaded = Step::StoreRead.run(self.namespace, keys.len(), load).await;
        self.load_seconds.record(permit.finish());
        let fetched = |loaded| Fetched { loaded, tier: Tier::Store, cacheable: true };
        Ok(loaded.map_err(CacheError::Load)?.into_iter().map(fetched).collect())
    }
}

/// Counts a load while it is running.
struct Loading<'a>(&'a Counters);

impl<'a> Loading<'a> {
    fn begin(counters: &'a Counters) -> Self {
        counters.loads.add(1);
        counters.loads_in_flight.add(1);
        Self(counters)
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.loads_in_flight.sub(1);
    }
}
