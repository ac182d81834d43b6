//! The storage that holds the copies: one moka cache for all namespaces on a node, so that only a copy's use
//! decides whether it stays, whichever namespace has it: those that were not read for longest go.

use std::{
    any::Any,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use moka::{notification::RemovalCause, policy::EvictionPolicy, sync::Cache};
use parking_lot::RwLock;

use super::{
    entry_key::{EntryKey, FinishedHashes, NamespaceId},
    hot_entries::HotEntries,
};

/// Bytes that moka 0.12 takes for an entry besides the copy: key (32), bucket (16) and its place in the table
/// (16 to 32), entry (40), its metadata (64) and links (48), its node in the use queue (24). The test
/// `counted_bytes_are_used_bytes` compares the sum with the memory that a process gains.
pub(crate) const CACHE_BYTES: usize = 272;

/// A copy of any namespace.
pub(crate) trait AnyCopy: Any + Send + Sync {
    /// All bytes of its entry.
    fn weight(&self) -> u32;
}

/// The entries of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    entries: AtomicU64,
    bytes: AtomicU64,
    evictions: AtomicU64,
}

impl Usage {
    fn add(&self, bytes: u32) {
        self.entries.fetch_add(1, Relaxed);
        self.bytes.fetch_add(u64::from(bytes), Relaxed);
    }

    fn remove(&self, bytes: u32, cause: RemovalCause) {
        self.entries.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(u64::from(bytes), Relaxed);
        if cause == RemovalCause::Size {
            self.evictions.fetch_add(1, Relaxed);
        }
    }

    /// Number of entries.
    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Number of entries that were evicted.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Relaxed)
    }
}

/// Each namespace's usage is at the index of its number.
type Usages = Arc<RwLock<Vec<Arc<Usage>>>>;

/// All namespaces' copies on a node, up to a total size in bytes. Up to 384 copies more may wait for moka to
/// decide which copies stay; it decides after 64, or with the first use after 300 ms, on the caller's thread.
/// Copies that it has evicted and that are still hot entries take at most a third of the limit besides.
pub(crate) struct Storage {
    pub(crate) cache: Cache<EntryKey, Arc<dyn AnyCopy>, FinishedHashes>,
    /// Copies of hot entries, see [`HotEntries`].
    pub(crate) hot: HotEntries<Arc<dyn AnyCopy>>,
    usages: Usages,
    limit: u64,
}

impl Storage {
    pub(crate) fn new(bytes: u64) -> Self {
        let usages = Usages::default();
        let listener = {
            let usages = Arc::clone(&usages);
            move |key: Arc<EntryKey>, copy: Arc<dyn AnyCopy>, cause| {
                if let Some(usage) = usages.read().get(usize::from(key.namespace.0)) {
                    usage.remove(copy.weight(), cause);
                }
            }
        };
        let cache = Cache::builder()
            // A cache of no bytes is switched off in moka, and would not report what it drops.
            .max_capacity(bytes.max(1))
            .weigher(|_, copy: &Arc<dyn AnyCopy>| copy.weight())
            // TinyLFU would keep no copy that is as large as many used copies: it compares its use with
            // theirs together.
            .eviction_policy(EvictionPolicy::lru())
            .eviction_listener(listener)
            .build_with_hasher(FinishedHashes::default());
        Self { cache, hot: HotEntries::new(bytes), usages, limit: bytes }
    }

    /// Adds a namespace.
    ///
    /// # Panics
    /// When there were 65,536 before.
    pub(crate) fn join(&self) -> (NamespaceId, Arc<Usage>) {
        let (usage, mut usages) = (Arc::<Usage>::default(), self.usages.write());
        let Ok(id) = u16::try_from(usages.len()) else { panic!("a node has at most 65,536 namespaces") };
        usages.push(Arc::clone(&usage));
        (NamespaceId(id), usage)
    }

    /// Inserts or replaces a copy. The key's lock is held.
    pub(crate) fn insert(&self, key: EntryKey, copy: Arc<dyn AnyCopy>, usage: &Usage) {
        usage.add(copy.weight());
        self.cache.insert(key, copy);
    }

    /// Lets moka decide about the copies that wait.
    pub(crate) fn settle(&self) {
        self.cache.run_pending_tasks();
    }

    /// Largest weight, in bytes.
    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of this weight.
    struct Weighs(u32);

    impl AnyCopy for Weighs {
        fn weight(&self) -> u32 {
            self.0
        }
    }

    const BYTES: u32 = 1_000;
    const FIT: u64 = 5_000;
    /// The most writes that moka's queue holds.
    const WAITING: u64 = 384;

    fn filled(entries: u64) -> (Storage, Arc<Usage>) {
        let storage = Storage::new(FIT * u64::from(BYTES));
        let (namespace, usage) = storage.join();
        let hasher = ahash::RandomState::new();
        for number in 0..entries {
            let key = EntryKey { namespace, hash: hasher.hash_one(number) };
            storage.insert(key, Arc::new(Weighs(BYTES)), &usage);
        }
        (storage, usage)
    }

    #[test]
    fn few_copies_wait_beyond_the_limit() {
        let (storage, usage) = filled(4 * FIT);
        assert!(usage.entries() <= FIT + WAITING, "{usage:?}");
        storage.settle();
        assert!(usage.bytes() <= storage.limit() && usage.entries() > FIT * 9 / 10, "{usage:?}");
        assert_eq!(usage.entries(), storage.cache.entry_count());
        assert_eq!(usage.bytes(), storage.cache.weighted_size());
        assert_eq!(usage.evictions(), 4 * FIT - usage.entries());
    }

    #[test]
    fn replaced_or_removed_copy_is_no_eviction() {
        let (storage, usage) = filled(2);
        let (namespace, other) = storage.join();
        let key = EntryKey { namespace, hash: 7 };
        for weight in [100, 250] {
            storage.insert(key, Arc::new(Weighs(weight)), &other);
        }
        assert_eq!((other.entries(), other.bytes()), (1, 250));
        storage.cache.invalidate(&key);
        assert_eq!((other.entries(), other.bytes(), other.evictions()), (0, 0, 0));
        assert_eq!((usage.entries(), usage.bytes()), (2, 2 * u64::from(BYTES)));
    }

    #[test]
    fn memory_of_no_bytes_keeps_nothing() {
        let storage = Storage::new(0);
        let (namespace, usage) = storage.join();
        storage.insert(EntryKey { namespace, hash: 7 }, Arc::new(Weighs(9)), &usage);
        storage.settle();
        assert_eq!((usage.entries(), usage.bytes(), usage.evictions()), (0, 0, 1));
    }
}
