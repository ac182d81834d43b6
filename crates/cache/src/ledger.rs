use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use crate::{Key, Version, flight::Flight, guards};

/// Shards; more than threads that miss at once.
const SHARDS: usize = 64;

/// What is under way, key by key: as large as the number of keys being loaded or written, no larger.
pub(crate) struct Ledger<K, V> {
    shards: Box<[Mutex<Shard<K, V>>]>,
    hasher: ahash::RandomState,
}

/// The keys of one shard that have something under way. Its lock is held for moments, never across an await.
pub(crate) type Shard<K, V> = HashMap<K, Progress<V>, ahash::RandomState>;

/// What is under way for one key. Floors and poisons need not outlive it: a load that begins later reads
/// what the store has acknowledged.
pub(crate) struct Progress<V> {
    /// The flight that readers join.
    pub(crate) current: Option<Arc<Flight<V>>>,
    /// Loads that have not ended, joined or detached.
    pub(crate) loads: usize,
    /// Writes that have no verdict.
    pub(crate) marks: usize,
    /// The record is known to have reached this version.
    pub(crate) floor: Version,
    /// How often the key was invalidated without a version.
    pub(crate) poisons: u64,
    /// Whether memory may have a copy: one was seen, or put in since.
    pub(crate) maybe_kept: bool,
}

impl<V> Default for Progress<V> {
    fn default() -> Self {
        Self { current: None, loads: 0, marks: 0, floor: Version::UNVERSIONED, poisons: 0, maybe_kept: true }
    }
}

impl<V> Progress<V> {
    /// The record changed: raises the floor, or poisons, and gives up the flight to join. The flight is
    /// returned to be dropped when the lock is not held.
    pub(crate) fn invalidate(&mut self, version: Option<Version>) -> Option<Arc<Flight<V>>> {
        match version {
            Some(version) if guards::invalidate_floor_monotonic() => self.floor = self.floor.max(version),
            Some(version) => self.floor = version,
            None => self.poisons += 1,
        }
        if guards::detach_flight() { self.current.take() } else { None }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.loads == 0 && self.marks == 0
    }
}

impl<K: Key, V> Ledger<K, V> {
    pub(crate) fn new() -> Self {
        let hasher = ahash::RandomState::new();
        let shard = || Mutex::new(HashMap::with_hasher(hasher.clone()));
        Self { shards: std::iter::repeat_with(shard).take(SHARDS).collect(), hasher: hasher.clone() }
    }

    /// Locks the shard of the key.
    pub(crate) fn lock(&self, key: &K) -> MutexGuard<'_, Shard<K, V>> {
        let hash = self.hasher.hash_one(key).to_le_bytes();
        // The map inside uses the low bits; the top byte is independent of them.
        self.shards[usize::from(hash[7]) % SHARDS].lock()
    }
}
