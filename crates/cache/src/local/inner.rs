//! The state that a cache's clones share: how memory answers, and what a change does here and on other nodes.

use std::sync::{Arc, atomic::AtomicU64};

use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};

use super::{key_state::KeyTable, memory::Memory, resync_rounds::ResyncRounds, slot::Slot, write_parts};
use crate::{
    CacheError, Change, Entry, Key, Moment, Node, Policy, Token, Version,
    metrics::counters::Counters,
    node::bus::Invalidation,
    remote::{Cell, CellKind, SharedSide},
    source::read::Source,
    testing::rules,
};

/// The result of a lookup in memory.
pub(crate) enum LookupResult<V> {
    Served(Option<Entry<V>>),
    Missed(MissReason),
}

/// The state of memory at a miss.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MissReason {
    /// There was no copy when memory had been filled this many times.
    NoCopy(u64),
    /// There was a copy that must not be served.
    Unservable,
}

/// The flights that a read may join.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadMode {
    /// Also a flight in progress. A stale copy may be served instead of its result.
    Cached(MissReason),
    /// Only a flight that begins now.
    Strong,
}

impl ReadMode {
    pub(crate) const fn is_cached(self) -> bool {
        matches!(self, Self::Cached(_))
    }
}

/// The state that a cache's clones share.
pub(crate) struct CacheState<K, V> {
    pub(crate) memory: Memory<K, V>,
    pub(crate) key_table: KeyTable<K, V>,
    pub(crate) node: Node,
    pub(crate) source: Box<dyn Source<K, V>>,
    /// The tier that nodes share, if there is one.
    pub(crate) shared: Option<SharedSide<V>>,
    /// Flights begun so far.
    pub(crate) flights: AtomicU64,
    /// Writes of unknown outcome.
    pub(crate) pending_repeats: PendingRepeats,
    /// How far copies have been compared.
    pub(crate) resync_rounds: ResyncRounds<K>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) policy: Policy<V>,
}

/// The writes of unknown outcome that wait for their repeated invalidations.
#[derive(Debug)]
pub(crate) struct PendingRepeats {
    pub(crate) permits: Arc<Semaphore>,
    /// Until when flushes replace the repeated invalidations of writes beyond the limit; `None`: no flush is
    /// needed.
    pub(crate) flush_until: Arc<Mutex<Option<Instant>>>,
}

impl PendingRepeats {
    pub(crate) fn new(permits: usize) -> Self {
        let permits = Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self { permits, flush_until: Arc::default() }
    }
}

impl<K: Key, V: Send + Sync + 'static> CacheState<K, V> {
    /// Reads memory, for the request's moment `now` if it is given: a hit with its metadata, or the state of
    /// memory at the miss.
    #[inline]
    pub(crate) fn lookup(self: &Arc<Self>, key: &K, now: Option<Moment>) -> LookupResult<V> {
        let found = self.lookup_uncounted(key, now);
        if matches!(found, LookupResult::Served(_)) {
            self.counters.hits.add(1);
        }
        found
    }

    /// Like [`Self::lookup`]. The caller counts the hit.
    #[inline]
    pub(crate) fn lookup_uncounted(self: &Arc<Self>, key: &K, now: Option<Moment>) -> LookupResult<V> {
        let fills = self.memory.fills();
        let now = now.unwrap_or_else(|| self.node.now());
        let Some((slot, earned)) = self.memory.read(key, now) else {
            return LookupResult::Missed(MissReason::NoCopy(fills));
        };
        if earned {
            self.promote(key);
        }
        if !self.is_fresh(&slot, now) {
            return LookupResult::Missed(MissReason::Unservable);
        }
        if slot.wants_refresh(now) {
            self.refresh(key);
        }
        LookupResult::Served(slot.into_entry(now, false))
    }

    /// Puts the key into the table of hot entries, unless its shard is locked.
    #[cold]
    fn promote(&self, key: &K) {
        if let Some(shard) = self.key_table.try_lock(key) {
            self.memory.promote(key);
            drop(shard);
        }
    }

    /// Whether the copy may be served at this moment.
    #[inline]
    pub(crate) fn is_fresh(&self, slot: &Slot<V>, now: Moment) -> bool {
        let expired = now >= slot.expires_at() && rules::expiry_on_read();
        !expired && self.memory.is_reachable(slot) && self.node.may_serve(now, self.policy.strict)
    }

    /// The expired copy that may be served because the store is slow or fails.
    pub(crate) fn stale(&self, key: &K) -> Option<Slot<V>> {
        if self.policy.strict && rules::strict_never_stale() {
            return None;
        }
        let now = self.node.now();
        let slot = self.memory.slot(key)?;
        let allowed = now < slot.expires_at().after(self.policy.max_stale);
        (allowed && self.node.may_serve(now, self.policy.strict)).then_some(slot)
    }

    /// Applies changes to flights and memory. Returns the invalidations to be published.
    pub(crate) fn invalidate_here<'a>(
        &self,
        changes: impl Iterator<Item = (&'a K, Option<Version>)>,
    ) -> Vec<Invalidation> {
        let invalidate = |(key, version): (&K, Option<Version>)| {
            self.invalidate_one(key, version);
            Invalidation { namespace: self.policy.name, key: key.to_string(), version, copy: None }
        };
        changes.map(invalidate).collect()
    }

    /// Like `invalidate_here`, for this node's writes that may have been applied, or may be later. Remembers
    /// the versions that readers got for these records: no later reader gets an older version.
    pub(crate) fn invalidate_uncertain_here<'a>(
        &self,
        keys: impl Iterator<Item = &'a K>,
    ) -> Vec<Invalidation> {
        let invalidate = |key: &K| {
            self.invalidate_uncertain_one(key);
            Invalidation { namespace: self.policy.name, key: key.to_string(), version: None, copy: None }
        };
        keys.map(invalidate).collect()
    }

    fn invalidate_uncertain_one(&self, key: &K) {
        let now = self.node.now();
        let mut shard = self.key_table.lock(key);
        let floor = shard.floor(key, now);
        let mut detached = [shard.invalidate(key, None), None];
        let dropped = self.memory.drop_older(key, None).map_or(floor, |slot| floor.max(slot.version));
        if dropped.is_versioned() && rules::suspect_noted() {
            detached[1] = shard.raise_floor(key, dropped, now);
        }
        drop(shard);
        drop(detached);
    }

    pub(crate) fn invalidate_one(&self, key: &K, version: Option<Version>) {
        let mut shard = self.key_table.lock(key);
        let detached = shard.invalidate(key, version);
        self.memory.drop_older(key, version);
        drop(shard);
        drop(detached);
    }

    /// The copy that the shared tier may have after the change. `None`: it may have none.
    pub(crate) fn shared_copy(&self, change: &Change<V>) -> Option<Cell> {
        let codec = &self.shared.as_ref()?.codec;
        let version = change.version()?;
        let mut cell = match change {
            Change::Put { value, .. } => Cell::value(codec.schema(), version, codec.encode(value)),
            Change::Deleted { .. } => Cell::bare(CellKind::Null, version, 0).written_now(),
            Change::Invalidate { .. } => return None,
        };
        cell.ttl_max = self.policy.shared_age_max();
        (cell.payload.len() <= self.policy.value_bytes_max).then_some(cell)
    }

    pub(crate) async fn publish(&self, changes: &[Invalidation]) -> Result<Token, CacheError> {
        let token = write_parts::publish(&self.node, self.policy.name, self.policy.strict, changes).await;
        self.published(changes);
        token
    }

    /// These changes are published, or will be.
    ///
    /// A load that began between the change here and its publication may have read the shared copy before
    /// that was deleted. The floor of a change with a version rejects what it read; a change without a
    /// version is applied again.
    pub(super) fn published(&self, changes: &[Invalidation]) {
        self.counters.invalidations_sent.add(u64::try_from(changes.len()).unwrap_or(u64::MAX));
        if self.shared.is_none() || !rules::dropped_again() {
            return;
        }
        for change in changes.iter().filter(|change| change.version.is_none()) {
            if let Ok(key) = change.key.parse() {
                self.invalidate_one(&key, None);
            }
        }
    }
}
