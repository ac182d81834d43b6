//! The keys with loads or writes in progress.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use super::{single_flight::Flight, version_floor::VersionFloors};
use crate::{Key, Moment, Version, testing::rules};

/// Shards; more than threads that miss at once.
const SHARDS: usize = 64;

/// Loads and writes in progress by key: as large as the number of keys that are being loaded or written.
pub(crate) struct KeyTable<K, V> {
    shards: Box<[Mutex<Shard<K, V>>]>,
    hasher: ahash::RandomState,
}

/// One shard's keys with loads or writes in progress, and some other known versions. Its lock is held
/// briefly, never across an await.
pub(crate) struct Shard<K, V> {
    in_progress: HashMap<K, KeyState<V>, ahash::RandomState>,
    floors: VersionFloors<K>,
}

/// The state of one key with loads or writes in progress. It is removed when they have ended, because a load
/// that begins later reads what the store has acknowledged, or a copy that was published since. Only the
/// versions that readers got are kept longer, in [`VersionFloors`].
pub(crate) struct KeyState<V> {
    /// The flight that readers join.
    pub(crate) current: Option<Arc<Flight<V>>>,
    /// Loads that have not ended, joined or detached.
    pub(crate) loads: usize,
    /// Writes that have no verdict.
    pub(crate) active_writers: usize,
    /// The record is known to have reached this version.
    pub(crate) floor: Version,
    /// How often the key was invalidated without a version.
    pub(crate) unversioned_invalidations: u64,
    /// Whether memory may have a copy. False: it has none.
    pub(crate) may_be_cached: bool,
}

impl<V> Default for KeyState<V> {
    fn default() -> Self {
        Self {
            current: None,
            loads: 0,
            active_writers: 0,
            floor: Version::UNVERSIONED,
            unversioned_invalidations: 0,
            may_be_cached: true,
        }
    }
}

impl<V> KeyState<V> {
    /// Handles a change of the record: raises the floor, or, without a version, forbids the loads in progress
    /// to fill memory. Detaches the flight and returns it: drop it after the lock is released.
    fn invalidate(&mut self, version: Option<Version>) -> Option<Arc<Flight<V>>> {
        match version {
            Some(version) if rules::invalidate_floor_monotonic() => self.floor = self.floor.max(version),
            Some(version) => self.floor = version,
            // The version may have been lowered by hand: a floor above it would prevent every fill.
            None => {
                self.unversioned_invalidations += 1;
                self.floor = Version::UNVERSIONED;
            }
        }
        if rules::detach_flight() { self.current.take() } else { None }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.loads == 0 && self.active_writers == 0
    }
}

impl<K: Key, V> Shard<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&KeyState<V>> {
        self.in_progress.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut KeyState<V>> {
        self.in_progress.get_mut(key)
    }

    /// The state of the key, created if necessary.
    pub(crate) fn enter(&mut self, key: &K, now: Moment) -> &mut KeyState<V> {
        let Self { in_progress, floors } = self;
        in_progress.entry(key.clone()).or_insert_with(|| {
            let floor = floors.floor(key, now);
            KeyState { floor, ..KeyState::default() }
        })
    }

    /// Removes the state of the key if nothing is in progress.
    pub(crate) fn leave(&mut self, key: &K) {
        if self.in_progress.get(key).is_some_and(KeyState::is_idle) {
            self.in_progress.remove(key);
        }
    }

    /// The lowest version that the record may have, by [`VersionFloors::version`] and by its state.
    pub(crate) fn floor(&self, key: &K, now: Moment) -> Version {
        let floor = self.in_progress.get(key).map_or(Version::UNVERSIONED, |progress| progress.floor);
        floor.max(self.floors.floor(key, now))
    }

    /// Records that readers got this version. Detaches the flight if it began with a lower floor, as it may
    /// return an older version. Returns it: drop it after the lock is released.
    pub(crate) fn raise_floor(&mut self, key: &K, version: Version, now: Moment) -> Option<Arc<Flight<V>>> {
        self.floors.raise(key, version, now);
        let progress = self.in_progress.get_mut(key)?;
        progress.floor = progress.floor.max(version);
        progress.current.take_if(|flight| flight.floor < version && rules::detach_flight())
    }

    /// The record changed: see [`KeyState::invalidate`]. Without a version its state is unknown.
    pub(crate) fn invalidate(&mut self, key: &K, version: Option<Version>) -> Option<Arc<Flight<V>>> {
        if version.is_none() {
            self.floors.forget(key);
        }
        self.in_progress.get_mut(key).and_then(|progress| progress.invalidate(version))
    }
}

impl<K: Key, V> KeyTable<K, V> {
    pub(crate) fn new() -> Self {
        let hasher = ahash::RandomState::new();
        let shard = || {
            let (in_progress, floors) =
                (HashMap::with_hasher(hasher.clone()), VersionFloors::new(hasher.clone()));
            Mutex::new(Shard { in_progress, floors })
        };
        Self { shards: std::iter::repeat_with(shard).take(SHARDS).collect(), hasher: hasher.clone() }
    }

    pub(crate) fn lock(&self, key: &K) -> MutexGuard<'_, Shard<K, V>> {
        self.shard(key).lock()
    }

    /// Like [`Self::lock`], unless another thread holds the lock.
    pub(crate) fn try_lock(&self, key: &K) -> Option<MutexGuard<'_, Shard<K, V>>> {
        self.shard(key).try_lock()
    }

    fn shard(&self, key: &K) -> &Mutex<Shard<K, V>> {
        let hash = self.hasher.hash_one(key).to_le_bytes();
        // The map inside uses the low bits; the top byte is independent of them.
        &self.shards[usize::from(hash[7]) % SHARDS]
    }
}
