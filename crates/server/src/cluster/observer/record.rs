//! The canary: one record in its own namespace, which no user call can reach. The store keeps it as the mark
//! of its writer's lease.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::FutureExt as _;
use kith_cache::{
    Change, LoadError, LoadOptions, Loaded, Loader, Policy, TieredCache, Version, load_each, remote::Codec,
};
use kith_service::{
    error::Error,
    write::{
        caches::CacheFactory,
        mutations::{Mutations, RecordWrite, is_published},
    },
};
use kith_store::{Applied, Coordination, StoreError, Stores};
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    aged::{AGE_MAX, AGED, CanaryReads},
    canary::Canary,
};

/// The canary's namespace.
pub(super) const CANARIES: &str = "canary";
/// Names the writer's lease, and the mark that is its version.
const NAME: &str = "canary";
const KEY: u8 = 0;
/// How long a canary write may wait to begin.
const PATIENCE: Duration = Duration::from_secs(1);
/// The format version.
const SCHEMA: u16 = 1;

/// The canary behind this node's tiers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct CanaryRecord {
    cache: TieredCache<u8, u64>,
    /// Like `cache`, but without broadcasts.
    aged: TieredCache<u8, u64>,
    coordination: Arc<dyn Coordination>,
    mutations: Mutations,
    /// How long the writer's lease lasts.
    lasts: Duration,
}

impl CanaryRecord {
    /// Creates it in its own namespace in the tiers.
    pub(super) fn new(stores: &Stores, caches: &CacheFactory, mutations: Mutations, lasts: Duration) -> Self {
        let coordination = Arc::clone(&stores.coordination);
        let policy = |name| Policy::new(name, |_: &u64| size_of::<u64>());
        let limited = Policy { age_max: Some(AGE_MAX), max_stale: Duration::ZERO, ..policy(AGED) };
        let loader = || Arc::new(CanaryLoader(Arc::clone(&coordination)));
        Self {
            cache: caches.namespace(policy(CANARIES), loader(), CanaryCodec),
            aged: caches.namespace(limited, loader(), CanaryCodec),
            coordination,
            mutations,
            lasts,
        }
    }

    /// The version that a cached read returns; 0: it was never written.
    ///
    /// # Errors
    /// If neither memory, nor Redis, nor the store has an answer.
    pub(crate) async fn read(&self) -> Result<u64, Error> {
        let read = self.cache.get(&KEY).await.map_err(|error| Error::cache(CANARIES, &error))?;
        Ok(read.map_or(0, |entry| entry.version.get()))
    }
}

#[async_trait]
impl CanaryReads for CanaryRecord {
    async fn current(&self) -> Option<u64> {
        self.read().await.ok()
    }

    async fn aged(&self) -> Option<u64> {
        let read = self.aged.get(&KEY).await.ok()?;
        Some(read.map_or(0, |entry| entry.version.get()))
    }
}

#[async_trait]
impl Canary for CanaryRecord {
    async fn acquire_lease(&self) -> Option<String> {
        // A new holder each time: a late write under an earlier lease finds that lease gone.
        let lease = Uuid::new_v4().to_string();
        let taken = self.coordination.lease(NAME, &lease, self.lasts).await;
        taken.unwrap_or(false).then_some(lease)
    }

    async fn write(&self, lease: String) -> Option<u64> {
        let (cache, mutations) = (self.cache.clone(), self.mutations.clone());
        let write = next(Arc::clone(&self.coordination), lease).boxed();
        let job = RecordWrite { key: KEY, write, change: put };
        let work = async move {
            let written = mutations.write(&cache, job).await;
            written.map_err(|error| Error::store(CANARIES, &error))
        };
        let written = self.mutations.run(Instant::now() + PATIENCE, work).await.ok()?;
        is_published(&written.token).then_some(*written.record)
    }
}

/// The next version, if this lease is still held.
async fn next(coordination: Arc<dyn Coordination>, lease: String) -> Result<Applied<u64>, StoreError> {
    let stored = stored_version(&*coordination).await?.unwrap_or(0);
    let record = stored.saturating_add(1);
    if coordination.set_mark(NAME, &lease, &record.to_be_bytes()).await? {
        return Ok(Applied { record, replayed: false });
    }
    // Another node may write it now.
    Err(StoreError::NotFound)
}

async fn stored_version(coordination: &dyn Coordination) -> Result<Option<u64>, StoreError> {
    let Some(mark) = coordination.mark(NAME).await? else { return Ok(None) };
    match <[u8; 8]>::try_from(mark.as_slice()) {
        Ok(bytes) => Ok(Some(u64::from_be_bytes(bytes))),
        Err(error) => Err(StoreError::Corrupt { source: Arc::new(error) }),
    }
}

fn put(version: &Arc<u64>) -> Change<u64> {
    Change::Put { value: Arc::clone(version), version: Version::new(**version) }
}

/// Loads the canary into the tiers.
#[derive(Debug)]
struct CanaryLoader(Arc<dyn Coordination>);

#[async_trait]
impl Loader<u8, u64> for CanaryLoader {
    async fn load(&self, key: &u8, _options: LoadOptions) -> Result<Loaded<u64>, LoadError> {
        let never = Loaded::Absent { version: Version::UNVERSIONED };
        if *key != KEY {
            return Ok(never);
        }
        let found = stored_version(&*self.0).await.map_err(LoadError::new)?;
        Ok(found.map_or(never, |version| Loaded::Found {
            value: Arc::new(version),
            version: Version::new(version),
        }))
    }

    async fn load_many(
        &self,
        keys: &[u8],
        options: LoadOptions,
    ) -> Result<Vec<(u8, Loaded<u64>)>, LoadError> {
        load_each(self, keys, options).await
    }
}

/// The canary's codec in the shared tier: its version.
#[derive(Clone, Copy, Debug)]
struct CanaryCodec;

impl Codec<u64> for CanaryCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, version: &u64) -> Vec<u8> {
        version.to_be_bytes().to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<u64> {
        bytes.try_into().ok().map(u64::from_be_bytes)
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use kith_cache::Node;
    use kith_store_sqlite::open_in_memory;

    use super::*;
    use kith_service::write::mutations::WriteLimits;

    const LONG: Duration = Duration::from_secs(10);
    const LIMITS: WriteLimits =
        WriteLimits { at_once: 1, wait: Duration::from_secs(1), takes: LONG, answer: LONG };

    fn record(stores: &Stores, lasts: Duration) -> CanaryRecord {
        let node = Node::local(1);
        let mutations = Mutations::new(node.clone(), &LIMITS);
        CanaryRecord::new(stores, &CacheFactory::alone(node), mutations, lasts)
    }

    #[tokio::test]
    async fn lease_holder_writes_the_next_version() {
        let file = open_in_memory().await.unwrap();
        let stores = file.stores();
        let record = record(&stores, Duration::from_secs(60));
        assert_eq!(record.read().await.unwrap(), 0);
        let lease = record.acquire_lease().await.unwrap();
        assert_eq!(record.acquire_lease().await, None, "one at a time, itself among them");
        for version in 1..=3 {
            assert_eq!(record.write(lease.clone()).await, Some(version));
            assert_eq!(record.read().await.unwrap(), version);
        }
        assert_eq!(record.write("another".to_owned()).await, None);
        assert_eq!(record.read().await.unwrap(), 3);
        file.close().await;
        assert_eq!(record.acquire_lease().await, None, "the store is away");
    }

    #[tokio::test]
    async fn expired_lease_writes_nothing_after_the_next() {
        let file = open_in_memory().await.unwrap();
        let stores = file.stores();
        let (one, other) = (record(&stores, Duration::ZERO), record(&stores, Duration::from_secs(60)));
        let (late, lease) = (one.acquire_lease().await.unwrap(), other.acquire_lease().await.unwrap());
        assert_eq!(one.write(late).await, None);
        assert_eq!(other.write(lease).await, Some(1));
        file.close().await;
    }

    #[tokio::test]
    async fn a_mark_that_is_none_is_no_version() {
        let file = open_in_memory().await.unwrap();
        let stores = file.stores();
        let record = record(&stores, Duration::from_secs(60));
        let lease = record.acquire_lease().await.unwrap();
        stores.coordination.set_mark(NAME, &lease, b"newer").await.unwrap();
        assert!(record.read().await.is_err());
        assert_eq!(record.write(lease).await, None);
        file.close().await;
    }

    #[test]
    fn only_valid_version_bytes_are_read_back() {
        assert_eq!(CanaryCodec.decode(&CanaryCodec.encode(&7)), Some(7));
        assert_eq!([&b""[..], &[0; 7], &[0; 9]].map(|bytes| CanaryCodec.decode(bytes)), [None; 3]);
    }
}
