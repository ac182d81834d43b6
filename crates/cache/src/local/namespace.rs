//! A namespace as operators and the bus see it: without the types of its records.

use std::{fmt, time::Duration};

use super::{inner::CacheState, slot::Slot};
use crate::{
    CacheError, Key, Loaded, Moment, ResyncReport, Tier, Token, Version,
    metrics::{counters::Rejection, exposition},
    source::read::LoadRequest,
};

/// A namespace without the types of its records, for operators and the bus. Keys are texts.
#[async_trait::async_trait]
pub trait Namespace: Send + Sync + fmt::Debug {
    /// Name of the namespace.
    fn name(&self) -> &'static str;

    /// Returns each inspected tier's copy, fastest first, except a shared tier that does not answer. Fills
    /// nothing, and does not count as a request.
    ///
    /// # Errors
    /// [`CacheError::InvalidKey`], or the store's error.
    async fn inspect(&self, key: &str, depth: Depth) -> Result<Vec<TierCopy>, CacheError>;

    /// Drops every copy of a record, on all nodes.
    ///
    /// # Errors
    /// [`CacheError::InvalidKey`], or [`CacheError::Bus`] if the change could not be published to the other
    /// nodes.
    async fn invalidate(&self, key: &str) -> Result<Token, CacheError>;

    /// Applies another node's change. A text that is not a key comes from a newer product version, and
    /// flushes the namespace.
    fn apply(&self, key: &str, version: Option<Version>);

    /// Empties the memory of this node: nothing loaded before is served or filled afterwards.
    fn flush(&self);

    /// The counters since the start. Not a consistent snapshot: each number is read separately.
    fn stats(&self) -> Stats;

    /// Compares this many copies in memory with the shared copies, and some with the store; see
    /// [`ResyncReport`]. Each call continues where the last call ended.
    ///
    /// # Errors
    /// A tier's error; those copies are left to a later round.
    async fn resync(&self, most: usize) -> Result<ResyncReport, CacheError>;

    /// Brings the metrics up to date.
    fn export_metrics(&self);
}

/// How many tiers an inspection reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Inspects only memory.
    Memory,
    /// All tiers; the store is read.
    Store,
}

/// The copy of a record in one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierCopy {
    /// The tier that was inspected.
    pub tier: Tier,
    /// The state that the tier has for the key.
    pub presence: Presence,
    /// Version of the copy; unversioned if there is none.
    pub version: Version,
    /// Time since the load that brought it began; `None` without a copy, and if the tier does not know it.
    pub age: Option<Duration>,
    /// Time until it expires, zero if it did; `None` without a copy, and if the tier does not know it.
    pub ttl: Option<Duration>,
    /// The value's weight in bytes as the tier holds it, 0 without a value.
    pub size_bytes: u64,
}

/// The content of a tier for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The tier has the record.
    Value,
    /// A cached absence.
    Null,
    /// The tier has nothing.
    None,
}

/// The counters of a namespace since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Copies in memory now, including expired copies and copies from before a flush.
    pub entries: u64,
    /// Their weight, with keys and bookkeeping.
    pub weight_bytes: u64,
    /// The weight limit for all namespaces together.
    pub weight_limit_bytes: u64,
    /// Keys that memory answered, including absences.
    pub hits: u64,
    /// Keys that memory did not answer.
    pub misses: u64,
    /// Misses that joined a running load.
    pub joined: u64,
    /// Loads from the store; a batch chunk counts as one load.
    pub loads: u64,
    /// Loads that failed.
    pub load_errors: u64,
    /// How many loads are running now.
    pub loads_in_flight: u64,
    /// Answers given after expiry.
    pub stale_served: u64,
    /// Loaded values that were not kept.
    pub fills_rejected: u64,
    /// Invalidations by this node and by others.
    pub invalidations: u64,
    /// Evicted copies.
    pub evictions: u64,
    /// Loads refused because too many waited.
    pub shed: u64,
    /// Keys that the shared tier answered, including absences.
    pub shared_hits: u64,
    /// Keys that the shared tier did not have.
    pub shared_misses: u64,
    /// Requests that the shared tier did not answer.
    pub shared_errors: u64,
    /// Keys that the store answered, including absences.
    pub store_reads: u64,
    /// Changes of other nodes.
    pub invalidations_received: u64,
    /// Pairs of copies that the re-sync compared.
    pub resync_checked: u64,
    /// Copies that the re-sync found wrong for longer than their bound.
    pub resync_stale: u64,
}

#[async_trait::async_trait]
impl<K: Key, V: Send + Sync + 'static> Namespace for CacheState<K, V> {
    fn name(&self) -> &'static str {
        self.policy.name
    }

    async fn inspect(&self, key: &str, depth: Depth) -> Result<Vec<TierCopy>, CacheError> {
        let key = parse::<K>(key)?;
        let memory = self.memory_copy(self.memory.slot(&key));
        if depth == Depth::Memory {
            return Ok(vec![memory]);
        }
        let held = self.source.stored_copy(&key).await;
        let keys = [&key];
        let load = self.fetch(&keys, LoadRequest::STRONG);
        let outcomes = tokio::time::timeout(self.policy.hard_timeout, load).await;
        let outcome = outcomes.ok().and_then(|outcomes| outcomes.into_iter().next());
        let outcome = outcome.ok_or(CacheError::Timeout)?;
        let loaded = outcome.result?;
        let store = store_copy(&loaded, self.size(&loaded));
        Ok([Some(memory), held, Some(store)].into_iter().flatten().collect())
    }

    async fn invalidate(&self, key: &str) -> Result<Token, CacheError> {
        let key = parse::<K>(key)?;
        let changes = self.invalidate_here(std::iter::once((&key, None)));
        self.publish(&changes).await
    }

    fn apply(&self, key: &str, version: Option<Version>) {
        self.counters.invalidations_received.add(1);
        match parse::<K>(key) {
            Ok(key) => self.invalidate_one(&key, version.filter(|version| version.is_versioned())),
            Err(_) => self.memory.flush(),
        }
    }

    fn flush(&self) {
        self.memory.flush();
    }

    async fn resync(&self, most: usize) -> Result<ResyncReport, CacheError> {
        self.resync_step(most).await
    }

    fn stats(&self) -> Stats {
        let counters = &self.counters;
        let (entries, weight_bytes) = self.memory.size();
        let rejected = Rejection::ALL.iter().map(|rejection| counters.rejected(*rejection).get());
        Stats {
            entries,
            weight_bytes,
            weight_limit_bytes: self.memory.limit(),
            hits: counters.hits.get(),
            misses: counters.misses.get(),
            joined: counters.joined.get(),
            loads: counters.loads.get(),
            load_errors: counters.load_errors.get(),
            loads_in_flight: counters.loads_in_flight.get(),
            stale_served: counters.stale_slow.get() + counters.stale_error.get(),
            fills_rejected: rejected.sum(),
            invalidations: counters.invalidations_sent.get() + counters.invalidations_received.get(),
            evictions: self.memory.evictions(),
            shed: counters.shed.get(),
            shared_hits: counters.shared_found.get() + counters.shared_absent.get(),
            shared_misses: counters.shared_missed.get(),
            shared_errors: counters.shared_errors.get(),
            store_reads: counters.store_found.get() + counters.store_absent.get(),
            invalidations_received: counters.invalidations_received.get(),
            resync_checked: counters.resync_checked.get(),
            resync_stale: counters.resync_stale_memory.get() + counters.resync_stale_redis.get(),
        }
    }

    fn export_metrics(&self) {
        let evictions = self.memory.evictions();
        let (entries, bytes) = self.memory.size();
        exposition::export(
            self.policy.name,
            &self.counters,
            exposition::MemoryNow { entries, bytes, evictions },
        );
    }
}

impl<K: Key, V: Send + Sync + 'static> CacheState<K, V> {
    fn memory_copy(&self, slot: Option<Slot<V>>) -> TierCopy {
        let Some(slot) = slot else {
            let (presence, version) = (Presence::None, Version::UNVERSIONED);
            return TierCopy { tier: Tier::Memory, presence, version, age: None, ttl: None, size_bytes: 0 };
        };
        let now = self.node.now();
        TierCopy {
            tier: Tier::Memory,
            presence: if slot.value.is_some() { Presence::Value } else { Presence::Null },
            version: slot.version,
            age: Some(now.since(slot.read_at)),
            ttl: Some(slot.expires_at()).filter(|at| *at != Moment::NEVER).map(|at| at.since(now)),
            size_bytes: u64::from(slot.size),
        }
    }
}

fn store_copy<V>(loaded: &Loaded<V>, size: usize) -> TierCopy {
    let presence = match loaded {
        Loaded::Found { .. } => Presence::Value,
        Loaded::Absent { .. } => Presence::Null,
    };
    let size_bytes = u64::try_from(size).unwrap_or(u64::MAX);
    TierCopy { tier: Tier::Store, presence, version: loaded.version(), age: None, ttl: None, size_bytes }
}

fn parse<K: Key>(text: &str) -> Result<K, CacheError> {
    text.parse().map_err(|_| CacheError::InvalidKey)
}

impl<K, V> fmt::Debug for CacheState<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Namespace").field(&self.policy.name).finish()
    }
}
