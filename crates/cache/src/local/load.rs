//! The begin, the run and the end of a load.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::FutureExt;
use tokio::{runtime::Handle, sync::oneshot, task::yield_now};
use tracing::{Instrument as _, Span};

use super::{
    inner::{CacheState, MissReason, ReadMode},
    key_state::{KeyState, Shard},
    single_flight::{Flight, LoadBatch, Outcome, Outcomes, Waiter},
    slot::{Slot, jittered, refresh_after},
};
use crate::{
    CacheError, Key, Loaded, Moment, Tier, Version,
    metrics::counters::Rejection,
    source::read::{Fetched, LoadRequest},
    spans::{self, Step},
    testing::{
        failpoints::{Failpoint, reach},
        rules,
    },
};

/// A load with at least this many keys answers its readers before it fills memory, because filling takes as
/// long as some reads.
const BACKGROUND_FILL_MIN: usize = 16;

/// Loads that are finished before the task yields to others.
const FILLS_BEFORE_YIELD: usize = 8;

/// Maximum age of a load that readers may join while the node is not trusted. If they could not join at all,
/// each reader would cause a load.
const JOINED_UNTRUSTED: Duration = Duration::from_millis(500);

/// The result that a reader gets after a miss.
pub(crate) enum JoinResult<V> {
    /// A load of the key, its own or another's.
    Flight(Arc<Flight<V>>),
    /// A copy that was filled after its lookup.
    Copy(Slot<V>),
}

/// The state of memory for a key to be loaded.
#[derive(Clone, Copy)]
enum KnownCopy {
    /// There is no copy.
    Nothing,
    /// Perhaps a copy; its version is not known.
    Perhaps,
    /// A copy with this version, which is expired or about to expire.
    Expired(Version),
}

/// A batch that still takes keys.
pub(crate) struct LoadBatchBuilder<K: Key, V: Send + Sync + 'static> {
    inner: Arc<CacheState<K, V>>,
    batch: Arc<LoadBatch<V>>,
    waiter: Waiter<V>,
    /// When its first flight began: each flight begins then or a little later.
    began: Moment,
    pending: Vec<PendingLoad<K>>,
    sender: oneshot::Sender<PendingLoads<K, V>>,
}

/// One key's load within a batch: its state when the load began, to be compared when it ends.
struct PendingLoad<K> {
    key: K,
    id: u64,
    flush: u32,
    floor: Version,
    unversioned_invalidations: u64,
    /// Its reader requires a read of the store.
    strong: bool,
}

/// The loads of a batch. Those that are not finished when it is dropped end without an outcome.
struct PendingLoads<K: Key, V: Send + Sync + 'static> {
    inner: Arc<CacheState<K, V>>,
    list: Vec<PendingLoad<K>>,
}

impl<K: Key, V: Send + Sync + 'static> LoadBatchBuilder<K, V> {
    fn new(inner: &Arc<CacheState<K, V>>) -> Self {
        let (sender, pending) = oneshot::channel();
        let span = Step::Load.span(inner.policy.name, None);
        let load = run_batch(pending).instrument(span).boxed();
        let batch = LoadBatch::new(load, inner.policy.load_bound);
        let waiter = Waiter::lead(&batch);
        let began = inner.node.now();
        Self { inner: Arc::clone(inner), batch, waiter, began, pending: Vec::new(), sender }
    }

    pub(crate) const fn len(&self) -> usize {
        self.pending.len()
    }

    fn add(&mut self, key: &K, progress: &KeyState<V>, flush: u32, strong: bool) -> Arc<Flight<V>> {
        let id = self.inner.flights.fetch_add(1, Ordering::Relaxed);
        let index = self.pending.len();
        let floor = progress.floor;
        self.pending.push(PendingLoad {
            key: key.clone(),
            id,
            flush,
            floor,
            unversioned_invalidations: progress.unversioned_invalidations,
            strong,
        });
        Arc::new(Flight { id, began: self.began, flush, floor, batch: Arc::clone(&self.batch), index })
    }

    /// Closes the batch. Its load begins when the waiter waits or is dropped.
    pub(crate) fn close(self) -> Waiter<V> {
        let pending = PendingLoads { inner: self.inner, list: self.pending };
        // The batch holds the receiver. Without a receiver, the loads end without an outcome when they are
        // dropped.
        self.sender.send(pending).ok();
        self.waiter
    }
}

/// The parameters of a new flight.
#[derive(Clone, Copy)]
struct NewFlight {
    /// The number of memory's last flush.
    flush: u32,
    /// Whether it must read the store.
    strong: bool,
}

impl<K: Key, V: Send + Sync + 'static> CacheState<K, V> {
    /// Joins the key's flight, if there is one and this is allowed, or adds the key to the open batch.
    pub(crate) fn start_or_join(
        self: &Arc<Self>,
        key: &K,
        mode: ReadMode,
        open: &mut Option<LoadBatchBuilder<K, V>>,
    ) -> JoinResult<V> {
        let flush = self.memory.flushes();
        let mut shard = self.key_table.lock(key);
        let mut known = KnownCopy::Perhaps;
        if let ReadMode::Cached(reason) = mode {
            match self.find_joinable(key, shard.get(key), flush, reason) {
                Ok(found) => return found,
                Err(found) => known = found,
            }
        }
        let strong = matches!(mode, ReadMode::Strong);
        let (flight, replaced) = self.begin(key, &mut shard, known, NewFlight { flush, strong }, open);
        drop(shard);
        drop(replaced);
        JoinResult::Flight(flight)
    }

    /// Begins a flight of the key. Also returns the flight that it replaces: drop that after the lock is
    /// released.
    fn begin(
        self: &Arc<Self>,
        key: &K,
        shard: &mut Shard<K, V>,
        known: KnownCopy,
        new: NewFlight,
        open: &mut Option<LoadBatchBuilder<K, V>>,
    ) -> (Arc<Flight<V>>, Option<Arc<Flight<V>>>) {
        let open = open.get_or_insert_with(|| LoadBatchBuilder::new(self));
        let progress = shard.enter(key, open.began);
        match known {
            KnownCopy::Expired(version) if rules::expired_is_floor() => {
                progress.floor = progress.floor.max(version);
            }
            KnownCopy::Expired(_) | KnownCopy::Perhaps => {}
            KnownCopy::Nothing => progress.may_be_cached = false,
        }
        let flight = open.add(key, progress, new.flush, new.strong);
        let replaced = progress.current.replace(Arc::clone(&flight));
        progress.loads += 1;
        (flight, replaced)
    }

    /// A flight to join, or a copy that may be served; otherwise the state of memory.
    fn find_joinable(
        &self,
        key: &K,
        progress: Option<&KeyState<V>>,
        flush: u32,
        reason: MissReason,
    ) -> Result<JoinResult<V>, KnownCopy> {
        if let Some(flight) = progress.and_then(|progress| progress.current.as_ref())
            && (flight.flush == flush || !rules::detach_flight())
            && self.may_join(flight)
        {
            self.counters.joined.add(1);
            return Ok(JoinResult::Flight(Arc::clone(flight)));
        }
        // If memory was filled since the lookup, a flight of the key may have ended before the lock was
        // taken.
        match reason {
            // The only copy may be among the hot entries. A lookup misses it there while its slots are being
            // changed.
            MissReason::NoCopy(fills) if fills == self.memory.fills() && !self.memory.may_hold(key) => {
                return Err(KnownCopy::Nothing);
            }
            MissReason::NoCopy(_) | MissReason::Unservable => {}
        }
        let slot = self.memory.raw(key).ok_or(KnownCopy::Nothing)?;
        if self.is_fresh(&slot, self.node.now()) {
            return Ok(JoinResult::Copy(slot));
        }
        Err(if self.memory.is_reachable(&slot) {
            KnownCopy::Expired(slot.version)
        } else {
            KnownCopy::Perhaps
        })
    }

    /// Past the trust deadline, this node may have missed an invalidation that would have detached the
    /// flight. Then readers join only a flight that began within [`JOINED_UNTRUSTED`], and none in a strict
    /// namespace.
    fn may_join(&self, flight: &Flight<V>) -> bool {
        let now = self.node.now();
        let age = now.since(flight.began);
        // The age counts from the begin of the load.
        if self.policy.age_max.is_some() && age >= self.policy.ttl {
            return false;
        }
        let young = !self.policy.strict && age <= JOINED_UNTRUSTED;
        self.node.may_serve(now, self.policy.strict) || young || !rules::join_trusted()
    }

    /// Begins to load the key in the background unless a load is under way.
    #[cold]
    pub(crate) fn refresh(self: &Arc<Self>, key: &K) {
        let flush = self.memory.flushes();
        let mut open = None;
        let mut shard = self.key_table.lock(key);
        if shard.get(key).is_none_or(KeyState::is_idle) {
            let known =
                self.memory.slot(key).map_or(KnownCopy::Perhaps, |slot| KnownCopy::Expired(slot.version));
            self.begin(key, &mut shard, known, NewFlight { flush, strong: false }, &mut open);
        }
        drop(shard);
        drop(open.map(LoadBatchBuilder::close));
    }

    /// Reads records from below memory; fills nothing. Outcomes in the order of the keys.
    pub(crate) async fn fetch(&self, keys: &[&K], request: LoadRequest<'_>) -> Vec<Outcome<V>> {
        let began = self.node.now();
        let load = AssertUnwindSafe(self.fetch_from_source(keys, request)).catch_unwind();
        let error = match load.await {
            Ok(Ok(outcomes)) => return outcomes,
            Ok(Err(error)) => error,
            Err(_panic) => CacheError::Panicked,
        };
        self.counters.load_errors.add(1);
        keys.iter().map(|_| Outcome::failed(error.clone(), began)).collect()
    }

    async fn fetch_from_source(
        &self,
        keys: &[&K],
        request: LoadRequest<'_>,
    ) -> Result<Vec<Outcome<V>>, CacheError> {
        let read_at = self.node.now();
        let asked: Vec<K> = keys.iter().copied().cloned().collect();
        let fetched = self.source.fetch(&asked, request).await?;
        reach(Failpoint::AfterLoad).await;
        Ok(fetched
            .into_iter()
            .map(|Fetched { loaded, tier, cacheable }| Outcome {
                result: Ok(loaded),
                read_at,
                tier,
                cacheable,
            })
            .collect())
    }

    /// The weight of the record: computed when memory keeps it, not while its reader waits.
    pub(crate) fn size(&self, loaded: &Loaded<V>) -> usize {
        match loaded {
            Loaded::Found { value, .. } => (self.policy.weigh)(value),
            Loaded::Absent { .. } => 0,
        }
    }

    /// Ends the load of one key: fills memory if every rule allows it.
    fn finish_load(&self, load: &PendingLoad<K>, outcome: Option<&Outcome<V>>) {
        let mut shard = self.key_table.lock(&load.key);
        let Some(progress) = shard.get_mut(&load.key) else { return };
        let mut read_version = None;
        match outcome.map(|outcome| (outcome, &outcome.result)) {
            Some((outcome, Ok(loaded))) => {
                let rejection = self.fill(load, progress, outcome, loaded).err();
                rejection.inspect(|rejection| self.counters.reject(*rejection));
                read_version = self.version_to_remember(load, outcome, loaded.version(), rejection);
            }
            Some((_, Err(_))) | None => self.memory.stop_refresh(&load.key),
        }
        progress.loads -= 1;
        let ended = progress.current.take_if(|current| current.id == load.id);
        // From now on no reader gets an older version.
        let detached =
            read_version.and_then(|version| shard.raise_floor(&load.key, version, self.node.now()));
        shard.leave(&load.key);
        drop(shard);
        drop((ended, detached));
    }

    /// The version that readers got, if it has to be remembered because memory or the shared tier may have an
    /// older value. Drops an older copy in memory. Shard lock held.
    fn version_to_remember(
        &self,
        load: &PendingLoad<K>,
        outcome: &Outcome<V>,
        version: Version,
        rejection: Option<Rejection>,
    ) -> Option<Version> {
        let refused = rejection.is_some() && rules::shown_noted();
        if refused && version.is_versioned() {
            self.memory.drop_older(&load.key, Some(version));
        }
        // Redis may have refused the copy that the lease was for, or may have an older copy by now.
        let ahead = outcome.tier == Tier::Store && self.shared.is_some() && rules::ahead_noted();
        Some(version).filter(|version| version.is_versioned() && (refused || ahead))
    }

    fn fill(
        &self,
        load: &PendingLoad<K>,
        progress: &mut KeyState<V>,
        outcome: &Outcome<V>,
        loaded: &Loaded<V>,
    ) -> Result<(), Rejection> {
        let flush = self.memory.flushes();
        let current = progress.current.as_ref().is_some_and(|flight| flight.id == load.id);
        let rejected = if rules::poison_flight()
            && load.unversioned_invalidations != progress.unversioned_invalidations
        {
            Rejection::Poisoned
        } else if rules::fill_floor() && loaded.version() < progress.floor {
            Rejection::Floor
        } else if rules::fill_epoch() && load.flush != flush {
            Rejection::Epoch
        } else if rules::fill_accepted() && !outcome.cacheable {
            Rejection::Shared
        } else if rules::fill_mark() && progress.active_writers > 0 {
            Rejection::Mark
        } else if rules::fill_newer_only() && !loaded.version().is_versioned() && !current {
            // Two values without versions have an order only if one flight at a time may fill.
            Rejection::Newer
        } else {
            return self.insert_copy(&load.key, progress, self.slot(outcome, loaded, flush));
        };
        Err(rejected)
    }

    /// Puts a copy into memory. Shard lock held.
    pub(crate) fn insert_copy(
        &self,
        key: &K,
        progress: &mut KeyState<V>,
        slot: Slot<V>,
    ) -> Result<(), Rejection> {
        if usize::try_from(slot.size).unwrap_or(usize::MAX) > self.policy.value_bytes_max {
            self.memory.drop_older(key, slot.version.is_versioned().then_some(slot.version));
            return Err(Rejection::TooLarge);
        }
        let absent = !std::mem::replace(&mut progress.may_be_cached, true);
        if self.memory.fill(key, slot, absent) { Ok(()) } else { Err(Rejection::Newer) }
    }

    fn slot(&self, outcome: &Outcome<V>, loaded: &Loaded<V>, flush: u32) -> Slot<V> {
        let value = match loaded {
            Loaded::Found { value, .. } => Some(Arc::clone(value)),
            Loaded::Absent { .. } => None,
        };
        self.new_slot(value, loaded.version(), self.size(loaded), outcome.read_at, flush)
    }

    /// A copy with the TTL of its kind (value or absence), reduced at random.
    pub(crate) fn new_slot(
        &self,
        value: Option<Arc<V>>,
        version: Version,
        size: usize,
        read_at: Moment,
        flush: u32,
    ) -> Slot<V> {
        let ttl = if value.is_some() { self.policy.ttl } else { self.policy.negative_ttl };
        let ttl = jittered(ttl, self.policy.jitter, self.node.random_unit());
        let refresh = refresh_after(ttl, self.policy.early_refresh);
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        Slot { value, version, read_at, ttl, refresh, size, flush }
    }
}

impl<K: Key, V: Send + Sync + 'static> PendingLoads<K, V> {
    /// Runs the batch and finishes each load, on the task that drives it.
    async fn run(mut self) -> Outcomes<V> {
        let keys: Vec<&K> = self.list.iter().map(|load| &load.key).collect();
        let floors: Vec<Version> = self.list.iter().map(|load| load.floor).collect();
        let strong = self.list.iter().any(|load| load.strong);
        let span = Span::current();
        spans::count(&span, keys.len());
        let outcomes: Outcomes<V> =
            self.inner.fetch(&keys, LoadRequest { floors: &floors, strong }).await.into();
        if outcomes.iter().any(|outcome| outcome.result.is_err()) {
            spans::fail(&span);
        }
        match Handle::try_current() {
            Ok(runtime) if self.list.len() >= BACKGROUND_FILL_MIN => {
                let outcomes = Arc::clone(&outcomes);
                runtime.spawn(async move { self.finish_in_background(&outcomes).await });
            }
            Ok(_) | Err(_) => self.finish(&outcomes),
        }
        outcomes
    }

    /// Like [`Self::finish`], but yields to other tasks in between.
    async fn finish_in_background(mut self, outcomes: &[Outcome<V>]) {
        let mut outcomes = outcomes.iter();
        // Pending loads are taken from the end.
        self.list.reverse();
        while !self.list.is_empty() {
            for _ in 0..FILLS_BEFORE_YIELD {
                let (Some(load), outcome) = (self.list.pop(), outcomes.next()) else { return };
                self.inner.finish_load(&load, outcome);
            }
            yield_now().await;
        }
    }

    /// Until the load of a key is finished, its readers still join its flight, which has ended, and an
    /// invalidation still prevents the fill, as while the load runs.
    fn finish(&mut self, outcomes: &[Outcome<V>]) {
        for (load, outcome) in std::mem::take(&mut self.list).iter().zip(outcomes) {
            self.inner.finish_load(load, Some(outcome));
        }
    }
}

impl<K: Key, V: Send + Sync + 'static> Drop for PendingLoads<K, V> {
    fn drop(&mut self) {
        self.inner.counters.load_errors.add(u64::from(!self.list.is_empty()));
        for load in &self.list {
            self.inner.finish_load(load, None);
        }
    }
}

async fn run_batch<K: Key, V: Send + Sync + 'static>(
    pending: oneshot::Receiver<PendingLoads<K, V>>,
) -> Outcomes<V> {
    match pending.await {
        Ok(pending) => pending.run().await,
        Err(_) => Arc::new([]),
    }
}
