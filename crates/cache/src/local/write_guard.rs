//! The guard around a write: marks its records before the commit, and settles them by its verdict.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use tokio::runtime::Handle;

use super::{
    delayed_invalidation,
    inner::CacheState,
    write_parts::{WritePart, WriteParts},
};
use crate::{CacheError, Change, Invalidation, Key, Node, Token, Version, testing::rules};

/// A write in progress, between [`TieredCache::begin_write`](crate::TieredCache::begin_write) and its
/// verdict: committed, aborted or unknown.
///
/// Dropped without a verdict, or while a verdict is being given, it acts like [`unknown`](Self::unknown): a
/// write whose task is cancelled leaves no stale copy. Owned, so that it can be moved into its own task.
#[must_use = "dropped, it counts as a write of unknown outcome"]
pub struct WriteGuard<K: Key, V: Send + Sync + 'static> {
    inner: Arc<CacheState<K, V>>,
    /// The keys and how often each had been invalidated without a version when the write began.
    marked: HashMap<K, u64, ahash::RandomState>,
    /// Count of flushes when the write began.
    flush: u32,
}

impl<K: Key, V: Send + Sync + 'static> WriteGuard<K, V> {
    pub(crate) fn begin(inner: &Arc<CacheState<K, V>>, keys: &[K]) -> Self {
        let (inner, flush) = (Arc::clone(inner), inner.memory.flushes());
        let mut guard = Self { inner, marked: HashMap::default(), flush };
        for key in keys {
            guard.mark(key);
        }
        if !rules::published_after_commit() {
            guard.publish_too_early();
        }
        guard
    }

    /// Whether the namespace is strict.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.inner.policy.strict
    }

    /// The write with these changes, to be settled together with its other parts. Keys of the guard that they
    /// do not name are unchanged.
    pub fn changing(self, changes: Vec<(K, Change<V>)>) -> WriteParts {
        WriteParts::of(ChangingWrite { guard: self, changes })
    }

    /// Turns the guard into write parts for a write that may change all its records, in an unknown way.
    pub fn invalidating(self) -> WriteParts {
        self.invalidating_but(Vec::new())
    }

    /// Like [`Self::invalidating`], but these records are changed in these ways.
    pub fn invalidating_but(mut self, mut changes: Vec<(K, Change<V>)>) -> WriteParts {
        changes.iter().for_each(|(key, _)| self.mark(key));
        let known: HashSet<K> = changes.iter().map(|(key, _)| key.clone()).collect();
        let unknown = self.marked.keys().filter(|key| !known.contains(*key)).cloned();
        changes.extend(unknown.map(|key| (key, Change::Invalidate { version: None })));
        self.changing(changes)
    }

    /// See [`WriteParts::committed`]; the write made these changes. Keys of the guard that they do not name
    /// are unchanged.
    ///
    /// # Errors
    /// As there.
    pub async fn committed(self, changes: Vec<(K, Change<V>)>) -> Result<Token, CacheError> {
        self.changing(changes).committed().await
    }

    /// The write was not applied, and never will be. Publishes nothing.
    pub async fn aborted(mut self) {
        self.unmark();
    }

    /// See [`WriteParts::unknown`].
    ///
    /// # Errors
    /// As there.
    pub async fn unknown(self) -> Result<Token, CacheError> {
        self.changing(Vec::new()).unknown().await
    }

    fn mark(&mut self, key: &K) {
        if self.marked.contains_key(key) {
            return;
        }
        let mut shard = self.inner.key_table.lock(key);
        let now = self.inner.node.now();
        let progress = shard.enter(key, now);
        progress.active_writers += 1;
        self.marked.insert(key.clone(), progress.unversioned_invalidations);
        let mut detached = [if rules::mark_detaches() { progress.current.take() } else { None }, None];
        if rules::drop_before_commit() {
            progress.may_be_cached = false;
            let dropped = self.inner.memory.drop_older(key, None);
            if let Some(slot) = dropped.filter(|slot| slot.version.is_versioned() && rules::dropped_noted()) {
                detached[1] = shard.raise_floor(key, slot.version, now);
            }
        }
        drop(shard);
        drop(detached);
    }

    fn install(&self, key: &K, change: Change<V>) {
        let (value, version) = match change {
            Change::Put { value, version } => (Some(value), version),
            Change::Deleted { version } => (None, version),
            Change::Invalidate { .. } => return,
        };
        let size = value.as_ref().map_or(0, |value| (self.inner.policy.weigh)(value));
        let slot = self.inner.new_slot(value, version, size, self.inner.node.now(), self.flush);
        let mut shard = self.inner.key_table.lock(key);
        if let Some(progress) = shard.get_mut(key)
            && self.may_install(key, version, progress)
            && let Err(rejection) = self.inner.insert_copy(key, progress, slot)
        {
            self.inner.counters.reject(rejection);
        }
    }

    fn may_install(&self, key: &K, version: Version, progress: &super::key_state::KeyState<V>) -> bool {
        let alone = progress.active_writers == 1 || !rules::put_single_writer();
        let newest = version >= progress.floor || !rules::put_floor();
        let clean = self.marked.get(key) == Some(&progress.unversioned_invalidations);
        version.is_versioned() && alone && newest && clean && self.flush == self.inner.memory.flushes()
    }

    /// Only for test builds without the rule: publishes the changes before the commit.
    fn publish_too_early(&self) {
        let notices = self.inner.invalidate_uncertain_here(self.marked.keys());
        let inner = Arc::clone(&self.inner);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { drop(inner.publish(&notices).await) });
        }
    }

    /// Removes the marks and returns their keys. Afterwards the drop of the guard has no effect.
    fn unmark(&mut self) -> Vec<K> {
        let keys: Vec<K> = self.marked.drain().map(|(key, _)| key).collect();
        for key in &keys {
            let mut shard = self.inner.key_table.lock(key);
            if let Some(progress) = shard.get_mut(key) {
                progress.active_writers -= 1;
                shard.leave(key);
            }
        }
        keys
    }
}

/// A write with the changes that it makes if it is committed.
struct ChangingWrite<K: Key, V: Send + Sync + 'static> {
    guard: WriteGuard<K, V>,
    changes: Vec<(K, Change<V>)>,
}

impl<K: Key, V: Send + Sync + 'static> WritePart for ChangingWrite<K, V> {
    fn node(&self) -> &Node {
        &self.guard.inner.node
    }

    fn name(&self) -> &'static str {
        self.guard.inner.policy.name
    }

    fn is_strict(&self) -> bool {
        self.guard.is_strict()
    }

    fn drop_committed(&self) -> Vec<Invalidation> {
        let inner = &self.guard.inner;
        let versions = self.changes.iter().map(|(key, change)| (key, change.version()));
        let mut dropped = inner.invalidate_here(versions);
        for (notice, (_, change)) in dropped.iter_mut().zip(&self.changes) {
            notice.copy = inner.shared_copy(change);
        }
        dropped
    }

    fn drop_uncertain(&self) -> Vec<Invalidation> {
        self.guard.inner.invalidate_uncertain_here(self.guard.marked.keys())
    }

    fn published(&self, changes: &[Invalidation]) {
        self.guard.inner.published(changes);
    }

    fn settle_committed(self: Box<Self>) {
        let Self { mut guard, changes } = *self;
        changes.into_iter().for_each(|(key, change)| guard.install(&key, change));
        guard.unmark();
    }

    fn settle_aborted(mut self: Box<Self>) {
        self.guard.unmark();
    }

    fn settle_unknown(mut self: Box<Self>) {
        let keys = self.guard.unmark();
        delayed_invalidation::schedule_repeats(&self.guard.inner, keys);
    }
}

impl<K: Key, V: Send + Sync + 'static> Drop for WriteGuard<K, V> {
    fn drop(&mut self) {
        if self.marked.is_empty() {
            return;
        }
        if !rules::drop_is_unknown() {
            self.unmark();
            return;
        }
        let notices = self.inner.invalidate_uncertain_here(self.marked.keys());
        let keys = self.unmark();
        let inner = Arc::clone(&self.inner);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = inner.publish(&notices).await {
                    delayed_invalidation::warn_unpublished(&inner, &error);
                }
                delayed_invalidation::schedule_repeats(&inner, keys);
            });
        }
    }
}

impl<K: Key, V: Send + Sync + 'static> fmt::Debug for WriteGuard<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGuard").field("keys", &self.marked.len()).finish_non_exhaustive()
    }
}
