//! The copies in memory: their storage, and the table of hot entries before it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use quick_cache::{Lifecycle, OptionsBuilder, Weighter, sync::Cache};
use tokio::runtime::Handle;

use super::{
    hot_entries::{HotEntries, KeyHash},
    slot::{NEVER, Slot},
};
use crate::{Key, Moment, Policy, Version, testing::rules};

/// Bytes of an entry besides its key, its [`Slot`] and its value: links, the hash table, and the reserve of both, which
/// is up to the same size. The benchmark `memory_entry_bytes` measures 70 to 150 with key and slot.
const ENTRY_BYTES: usize = 64;
/// Minimum bytes of a shard of the storage, so that a large value fits into one. Each shard has its own lock.
const SHARD_BYTES: u64 = 1 << 20;
const SHARDS_MAX: u64 = 64;
/// For each this many bytes, the storage remembers one evicted key. A remembered key that is inserted again is kept longer.
const BYTES_AN_EVICTED_KEY: u64 = 1024;
/// More copies than this are dropped on a separate thread, because that takes long.
const DROPPED_AT_ONCE: usize = 10_000;

/// The storage of copies. Evicts by S3-FIFO when its limit is reached.
pub(crate) type Storage<K, V> = Cache<K, Slot<V>, Weight, ahash::RandomState, Evictions>;

/// Bytes of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight;

impl<K, V> Weighter<K, Slot<V>> for Weight {
    fn weight(&self, _key: &K, slot: &Slot<V>) -> u64 {
        u64::from(slot.size) + overhead::<K, V>()
    }
}

/// Counts evictions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evictions(Arc<AtomicU64>);

impl<K, V> Lifecycle<K, Slot<V>> for Evictions {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), _key: K, _slot: Slot<V>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Storage and eviction. A change of a key holds the lock of its shard in the table of keys; a read holds none.
pub(crate) struct Memory<K, V> {
    cache: Arc<Storage<K, V>>,
    /// Copies of hot entries, see [`HotEntries`].
    hot: HotEntries<K, V>,
    flushes: AtomicU32,
    evicted: Evictions,
    fills: AtomicU64,
    limit: AtomicU64,
}

impl<K: Key, V: Send + Sync + 'static> Memory<K, V> {
    pub(crate) fn new(policy: &Policy<V>) -> Self {
        let (bytes, evicted) = (policy.memory_bytes, Evictions::default());
        Self {
            cache: Arc::new(storage(bytes, evicted.clone())),
            hot: HotEntries::new(bytes),
            flushes: AtomicU32::new(0),
            evicted,
            fills: AtomicU64::new(0),
            limit: AtomicU64::new(bytes),
        }
    }

    /// The copy, also if it is expired or from before a flush. Finds every copy that reads may find: the hot entries may
    /// have one that the storage has evicted.
    pub(crate) fn raw(&self, key: &K) -> Option<Slot<V>> {
        self.hot.get_waiting(key).or_else(|| self.cache.get(key))
    }

    /// The same for a read at this moment, and whether the key has earned a slot among the hot entries, which
    /// [`Self::promote`] assigns.
    #[inline]
    pub(crate) fn read(&self, key: &K, now: Moment) -> Option<(Slot<V>, bool)> {
        let hash = self.hot.hash(key);
        if let Some(slot) = self.hot.get(hash, key) {
            if hash.is_sampled_hit(now) {
                self.record_hit(key, hash);
            }
            return Some((slot, false));
        }
        let slot = self.cache.get(key)?;
        let earned = hash.is_vote(now) && self.hot.accepts(&slot) && self.hot.vote(hash);
        Some((slot, earned))
    }

    /// Reads of keys with a slot are reported to eviction, too.
    #[cold]
    fn record_hit(&self, key: &K, hash: KeyHash) {
        drop(self.cache.get(key));
        self.hot.record_hit(hash);
    }

    /// Copies the entry of the key into the table of hot entries. Shard lock held.
    #[cold]
    pub(crate) fn promote(&self, key: &K) {
        if let Some(slot) = self.cache.get(key) {
            self.hot.put(key, &slot);
        }
    }

    /// Whether the hot entries may have a copy, also while the slots of the key are being changed. False is exact if the
    /// shard lock is held.
    #[inline]
    pub(crate) fn may_hold(&self, key: &K) -> bool {
        self.hot.may_hold(key)
    }

    /// The copy, expired or not.
    #[inline]
    pub(crate) fn slot(&self, key: &K) -> Option<Slot<V>> {
        self.raw(key).filter(|slot| self.is_reachable(slot))
    }

    /// Whether memory was not flushed since the copy was loaded.
    #[inline]
    pub(crate) fn is_reachable(&self, slot: &Slot<V>) -> bool {
        slot.flush == self.flushes() || !rules::flush_on_read()
    }

    /// Number of flushes.
    #[inline]
    pub(crate) fn flushes(&self) -> u32 {
        self.flushes.load(Ordering::Acquire)
    }

    /// Number of copies that were inserted so far. While it is unchanged, absent keys stay absent.
    #[inline]
    pub(crate) fn fills(&self) -> u64 {
        self.fills.load(Ordering::Acquire)
    }

    /// Keeps a copy unless a newer one is here. `absent`: the caller knows that there is none. Shard lock held.
    pub(crate) fn fill(&self, key: &K, slot: Slot<V>, absent: bool) -> bool {
        let here = if absent { None } else { self.raw(key) };
        let reachable = here.as_ref().filter(|here| self.is_reachable(here));
        if rules::fill_newer_only()
            && reachable.is_some_and(|here| here.is_newer_than(slot.version, slot.read_at))
        {
            return false;
        }
        self.insert(key, slot);
        self.fills.fetch_add(1, Ordering::Release);
        true
    }

    /// Drops the copy if it is older than the version; without a version, drops every copy. Returns the dropped copy if
    /// reads could find it. Shard lock held.
    pub(crate) fn drop_older(&self, key: &K, version: Option<Version>) -> Option<Slot<V>> {
        let older = |version| self.raw(key).is_some_and(|slot| slot.version < version);
        if !version.is_none_or(older) {
            return None;
        }
        let hot = self.hot.remove(key);
        let dropped = self.cache.remove(key).map(|(_, slot)| slot).filter(|slot| self.is_reachable(slot));
        dropped.or_else(|| hot.filter(|slot| self.is_reachable(slot)))
    }

    /// No hit refreshes the copy any more. Shard lock held.
    pub(crate) fn stop_refresh(&self, key: &K) {
        if let Some(slot) = self.slot(key).filter(|slot| slot.refresh != NEVER) {
            self.insert(key, Slot { refresh: NEVER, ..slot });
        }
    }

    /// A key with a slot among the hot entries keeps it; other keys have to earn one. Shard lock held.
    fn insert(&self, key: &K, slot: Slot<V>) {
        // In between only the storage has a copy. Otherwise a reader could get the new copy from the storage, and after
        // it the old one from the hot entries.
        let again = self.hot.remove(key).map(|_| slot.clone());
        self.cache.insert(key.clone(), slot);
        if let Some(again) = again {
            self.hot.put(key, &again);
        }
    }

    /// Makes all copies unreachable at once; the memory of many is freed later.
    pub(crate) fn flush(&self) {
        let flush = self.flushes.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        if !rules::flush_on_read() {
            return;
        }
        let cache = Arc::clone(&self.cache);
        let drop_older = move || cache.retain(|_, slot| slot.flush == flush);
        match Handle::try_current() {
            Ok(runtime) if self.cache.len() > DROPPED_AT_ONCE => drop(runtime.spawn_blocking(drop_older)),
            Ok(_) | Err(_) => drop_older(),
        }
    }

    /// Number of evicted copies.
    pub(crate) fn evictions(&self) -> u64 {
        self.evicted.0.load(Ordering::Relaxed)
    }

    /// The storage itself, to walk over it.
    pub(crate) fn storage(&self) -> Arc<Storage<K, V>> {
        Arc::clone(&self.cache)
    }

    /// Entries and weight in bytes.
    pub(crate) fn size(&self) -> (u64, u64) {
        (u64::try_from(self.cache.len()).unwrap_or(u64::MAX), self.cache.weight())
    }

    /// Largest weight, in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the largest weight. Evicts what exceeds it.
    pub(crate) fn set_limit(&self, bytes: u64) {
        if self.limit.swap(bytes, Ordering::Relaxed) != bytes {
            self.cache.set_capacity(bytes);
        }
    }
}

impl<K, V> fmt::Debug for Memory<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

fn storage<K: Key, V>(bytes: u64, evicted: Evictions) -> Storage<K, V> {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let options = OptionsBuilder::new()
        .shards(1 << (bytes / SHARD_BYTES).clamp(1, SHARDS_MAX).ilog2())
        .estimated_items_capacity(number(bytes / BYTES_AN_EVICTED_KEY))
        .ghost_allocation(1.0)
        .weight_capacity(bytes)
        .build();
    let options = options.unwrap_or_else(|_| unreachable!("both capacities are set"));
    Cache::with_options(options, Weight, ahash::RandomState::new(), evicted)
}

fn overhead<K, V>() -> u64 {
    u64::try_from(ENTRY_BYTES + size_of::<K>() + size_of::<Slot<V>>()).unwrap_or(u64::MAX)
}
