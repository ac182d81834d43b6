//! A namespace's copies in its node's memory.

use std::{
    any::Any,
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use super::slot::{NEVER, Slot};
use crate::{
    Key, Moment, Version,
    storage::{AnyCopy, CACHE_BYTES, EntryKey, NamespaceId, Storage, Usage},
    testing::rules,
};

/// Bytes of the counts before what an [`Arc`] holds.
const ARC_BYTES: usize = 16;
/// A copy with a larger value is not put among the hot entries. So copies that the storage has evicted, and
/// that are still there, take at most a third of the memory limit.
const HOT_SIZE_MAX: u32 = 512;

/// A copy as the storage has it, without its types.
struct Stored<K, V> {
    key: K,
    slot: Slot<V>,
}

impl<K: Key, V: Send + Sync + 'static> AnyCopy for Stored<K, V> {
    fn weight(&self) -> u32 {
        let value = if self.slot.value.is_some() { ARC_BYTES } else { 0 };
        let bytes = CACHE_BYTES + ARC_BYTES + size_of::<Self>() + value;
        self.slot.size.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX))
    }
}

/// A namespace's copies. A change to a key holds its shard lock in the key table; a read holds no lock.
pub(crate) struct Memory<K, V> {
    storage: Arc<Storage>,
    namespace: NamespaceId,
    usage: Arc<Usage>,
    hasher: ahash::RandomState,
    flushes: AtomicU32,
    fills: AtomicU64,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Send + Sync + 'static> Memory<K, V> {
    pub(crate) fn new(storage: Arc<Storage>) -> Self {
        let (namespace, usage) = storage.join();
        Self {
            storage,
            namespace,
            usage,
            hasher: ahash::RandomState::new(),
            flushes: AtomicU32::new(0),
            fills: AtomicU64::new(0),
            types: PhantomData,
        }
    }

    /// The copy, also if it is expired or from before a flush. Finds every copy that reads may find: the hot
    /// entries may have a copy that the storage has evicted.
    pub(crate) fn raw(&self, key: &K) -> Option<Slot<V>> {
        let place = self.place(key);
        let hot = self.storage.hot.get_waiting(place, |copy| slot_of(&**copy, key));
        hot.or_else(|| self.stored(place, key))
    }

    /// Like `raw`, for a read at this moment. Also returns whether the key has earned a slot among the hot
    /// entries, which [`Self::promote`] assigns.
    #[inline]
    pub(crate) fn read(&self, key: &K, now: Moment) -> Option<(Slot<V>, bool)> {
        let place = self.place(key);
        if let Some(slot) = self.storage.hot.get(place, |copy| slot_of(&**copy, key)) {
            if place.is_sampled_hit(now) {
                self.record_hit(place);
            }
            return Some((slot, false));
        }
        let slot = self.stored(place, key)?;
        let earned = place.is_vote(now) && is_small(&slot) && self.storage.hot.vote(place);
        Some((slot, earned))
    }

    /// Reads of keys with a slot are reported to eviction, too.
    #[cold]
    fn record_hit(&self, place: EntryKey) {
        drop(self.storage.cache.get(&place));
        self.storage.hot.record_hit(place);
    }

    /// Copies the key's entry into the hot entries. Shard lock held.
    #[cold]
    pub(crate) fn promote(&self, key: &K) {
        let place = self.place(key);
        if let Some(copy) = self.storage.cache.get(&place)
            && slot_of(&*copy, key).is_some_and(|slot: Slot<V>| is_small(&slot))
        {
            self.storage.hot.put(place, copy);
        }
    }

    /// Whether the hot entries may have a copy, also while the slots of the key are being changed. False is
    /// exact if the shard lock is held.
    #[inline]
    pub(crate) fn may_hold(&self, key: &K) -> bool {
        self.storage.hot.may_hold(self.place(key))
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

    /// Keeps a copy unless a newer copy is here. `absent`: the caller knows that there is none. Shard lock
    /// held.
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

    /// Drops the copy if it is older than the version; without a version, drops every copy. Returns the
    /// dropped copy if reads could find it. Shard lock held.
    pub(crate) fn drop_older(&self, key: &K, version: Option<Version>) -> Option<Slot<V>> {
        let older = |version| self.raw(key).is_some_and(|slot| slot.version < version);
        if !version.is_none_or(older) {
            return None;
        }
        let place = self.place(key);
        let hot = self.storage.hot.remove(place);
        let dropped = [self.storage.cache.remove(&place), hot];
        dropped.iter().flatten().find_map(|copy| slot_of(&**copy, key).filter(|slot| self.is_reachable(slot)))
    }

    /// No hit refreshes the copy any more. Shard lock held.
    pub(crate) fn stop_refresh(&self, key: &K) {
        if let Some(slot) = self.slot(key).filter(|slot| slot.refresh != NEVER) {
            self.insert(key, Slot { refresh: NEVER, ..slot });
        }
    }

    /// A key with a slot among the hot entries keeps it; other keys have to earn a slot. Shard lock held.
    fn insert(&self, key: &K, slot: Slot<V>) {
        let (place, is_small) = (self.place(key), is_small(&slot));
        let copy: Arc<dyn AnyCopy> = Arc::new(Stored { key: key.clone(), slot });
        // In between only the storage has a copy. Otherwise a reader could get the new copy from the storage,
        // and then the old copy from the hot entries.
        let was_hot = self.storage.hot.remove(place).is_some();
        let again = (was_hot && is_small).then(|| Arc::clone(&copy));
        self.storage.insert(place, copy, &self.usage);
        if let Some(again) = again {
            self.storage.hot.put(place, again);
        }
    }

    /// Makes all copies unreachable at once. They keep their memory until they are replaced or evicted.
    pub(crate) fn flush(&self) {
        self.flushes.fetch_add(1, Ordering::AcqRel);
    }

    /// Number of evicted copies.
    pub(crate) fn evictions(&self) -> u64 {
        self.usage.evictions()
    }

    /// Entries and weight in bytes.
    pub(crate) fn size(&self) -> (u64, u64) {
        self.storage.settle();
        (self.usage.entries(), self.usage.bytes())
    }

    /// Largest weight that all namespaces' copies may have together, in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.storage.limit()
    }

    /// Finds keys and versions for at most `most` reachable copies, beginning at a random position. Does not
    /// count as use. Takes long, because it passes all namespaces' copies.
    pub(crate) fn versions(
        &self,
        most: usize,
        chance: f64,
    ) -> impl FnOnce() -> Vec<(Arc<K>, Version)> + Send + 'static {
        let (storage, namespace, flush) = (Arc::clone(&self.storage), self.namespace, self.flushes());
        let entries = usize::try_from(self.usage.entries()).unwrap_or(usize::MAX);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a random position"
        )]
        let skip = (entries.saturating_sub(most) as f64 * chance) as usize;
        move || {
            let copies = storage.cache.iter().filter(|(place, _)| place.namespace == namespace);
            let versions = copies.skip(skip).filter_map(|(_, copy)| {
                let stored = stored::<K, V>(&*copy).filter(|stored| stored.slot.flush == flush)?;
                Some((Arc::new(stored.key.clone()), stored.slot.version))
            });
            versions.take(most.min(entries)).collect()
        }
    }

    #[inline]
    fn place(&self, key: &K) -> EntryKey {
        EntryKey { namespace: self.namespace, hash: self.hasher.hash_one(key) }
    }

    #[inline]
    fn stored(&self, place: EntryKey, key: &K) -> Option<Slot<V>> {
        self.storage.cache.get(&place).and_then(|copy| slot_of(&*copy, key))
    }
}

impl<K, V> fmt::Debug for Memory<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// Whether the copy may be among the hot entries.
const fn is_small<V>(slot: &Slot<V>) -> bool {
    slot.size <= HOT_SIZE_MAX
}

/// The key's slot, unless the copy belongs to another key.
#[inline]
fn slot_of<K: Key, V: Send + Sync + 'static>(copy: &dyn AnyCopy, key: &K) -> Option<Slot<V>> {
    stored::<K, V>(copy).filter(|stored| stored.key == *key).map(|stored| stored.slot.clone())
}

#[inline]
fn stored<K: Key, V: Send + Sync + 'static>(copy: &dyn AnyCopy) -> Option<&Stored<K, V>> {
    let copy: &dyn Any = copy;
    copy.downcast_ref()
}
