//! A memory that is far too small, under many threads: what is evicted all the time is never wrong.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use kith_cache::{
    Change, LoadError, LoadOptions, Loaded, Loader, Node, NodeConfig, Policy, TieredCache, Version, load_each,
};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

const KEYS: u64 = 1_000;
const TASKS: u64 = 4;
/// Holds some forty copies.
const MEMORY_BYTES: u64 = 16 << 10;

/// A record says which key it belongs to, and which version it has.
type Record = (u64, u64);

/// The version that each record has.
#[derive(Debug)]
struct Store(Vec<AtomicU64>);

#[async_trait]
impl Loader<u64, Record> for Store {
    async fn load(&self, key: &u64, _: LoadOptions) -> Result<Loaded<Record>, LoadError> {
        let version = self.0[usize::try_from(*key).unwrap()].load(Ordering::SeqCst);
        Ok(Loaded::Found { value: Arc::new((*key, version)), version: Version::new(version) })
    }

    async fn load_many(
        &self,
        keys: &[u64],
        options: LoadOptions,
    ) -> Result<Vec<(u64, Loaded<Record>)>, LoadError> {
        load_each(self, keys, options).await
    }
}

/// Reads and writes at random. An answer contains every write that was acknowledged before the read began.
async fn churn(cache: TieredCache<u64, Record>, store: Arc<Store>, seed: u64, times: u64) {
    let mut chance = SmallRng::seed_from_u64(seed);
    let acknowledged: &[AtomicU64] = &ACKNOWLEDGED;
    for _ in 0..times {
        let key = chance.random_range(0..KEYS);
        let place = usize::try_from(key).unwrap();
        if chance.random_range(0..10) == 0 {
            let guard = cache.begin_write(&[key]).await;
            let version = store.0[place].fetch_add(1, Ordering::SeqCst) + 1;
            let change = Change::Put { value: Arc::new((key, version)), version: Version::new(version) };
            guard.committed(vec![(key, change)]).await.unwrap();
            acknowledged[place].fetch_max(version, Ordering::SeqCst);
        } else {
            let before = acknowledged[place].load(Ordering::SeqCst);
            let (whose, version) = *cache.get(&key).await.unwrap().unwrap().value;
            assert_eq!(whose, key);
            assert!(version >= before, "{version} was read after {before} was acknowledged, seed {seed}");
        }
    }
}

/// The newest version of each record whose write was acknowledged.
static ACKNOWLEDGED: [AtomicU64; 1_000] = [const { AtomicU64::new(1) }; 1_000];

/// `KITH_FULL=1`: ten million reads and writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_memory_is_never_wrong_under_churn() {
    let full = std::env::vars().any(|(name, value)| name == "KITH_FULL" && value == "1");
    let times = if full { 10_000_000 } else { 200_000 };
    let node = Node::new(NodeConfig { memory_bytes: MEMORY_BYTES, ..NodeConfig::local(1) });
    let store = Arc::new(Store((0..KEYS).map(|_| AtomicU64::new(1)).collect()));
    let cache = TieredCache::new(&node, Policy::new("tiny", |_| 16), Arc::<Store>::clone(&store));
    let tasks: Vec<_> = (0..TASKS)
        .map(|seed| tokio::spawn(churn(cache.clone(), Arc::clone(&store), seed, times / TASKS)))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let stats = node.namespaces()[0].stats();
    assert!(stats.entries <= 96 && stats.evictions > times / 100, "{stats:?}");
}
