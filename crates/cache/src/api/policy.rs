//! A namespace's configuration: expiry, staleness, memory, timeouts and load concurrency. TTLs count from the
//! start of a load, not from its end.

use std::{fmt, time::Duration};

use crate::testing::rules;

/// The policy of a namespace. Start from [`Policy::new`] and change fields.
pub struct Policy<V> {
    /// Name of the namespace: in keys, operator calls and metric labels. Unique in a node, without `/`.
    pub name: &'static str,
    /// How long a record's copy is served, counted from the start of its load. [`Policy::UNTIL_CHANGED`]:
    /// until it is replaced, invalidated or evicted.
    pub ttl: Duration,
    /// How long the absence of a record is served.
    pub negative_ttl: Duration,
    /// Longest age of a copy, counted from the start of its load and over all tiers that it passes, for
    /// records that change without a broadcast. Half of it is spent in the tier that nodes share and half in
    /// memory. It limits the TTLs, and reads wait for a slow store; a stale copy is served only if the store
    /// gives no answer, see [`max_stale`](Self::max_stale). `None`: every change is broadcast, and each tier
    /// keeps copies for its own time.
    pub age_max: Option<Duration>,
    /// Largest random reduction of a TTL, 0 to 1.
    pub jitter: f64,
    /// No expired copy is ever served, and no copy while the node is not trusted.
    pub strict: bool,
    /// How long after its expiry a copy may be served if the store is slow or fails.
    pub max_stale: Duration,
    /// A record that weighs more is served but not kept.
    pub value_bytes_max: usize,
    /// How long a read with a stale copy waits for the store before it takes the copy.
    pub soft_timeout: Duration,
    /// How long a read waits for the store before it fails. Its load continues.
    pub hard_timeout: Duration,
    /// A load whose caller left, or for which several readers wait, is dropped after this time, including its
    /// wait for a turn.
    pub load_bound: Duration,
    /// Most concurrent loads from the store; a batch chunk counts as one load.
    pub loads_in_flight: usize,
    /// How long a load may wait for its turn before it is shed. A load is shed at once if, judged by how long
    /// turns take, it cannot expect its turn in half that time.
    pub load_queue_wait: Duration,
    /// Most keys in one load of a batch.
    pub batch_chunk: usize,
    /// Part of its TTL after which the first hit refreshes a copy in the background. 1 or above: never.
    pub early_refresh: f64,
    /// Most writes of unknown outcome that wait for their repeated invalidations. Above it the namespace is
    /// flushed at the same times instead.
    pub late_writes: usize,
    /// All bytes of a value. Called once for each fill; must be cheap.
    pub weigh: fn(&V) -> usize,
}

impl<V> Policy<V> {
    /// The time to live of copies that do not expire: for a store that only this node changes.
    pub const UNTIL_CHANGED: Duration = Duration::MAX;

    /// The defaults: 60 s, absence 5 s, jitter a tenth, never stale for more than 10 min.
    #[must_use]
    pub const fn new(name: &'static str, weigh: fn(&V) -> usize) -> Self {
        Self {
            name,
            ttl: Duration::from_secs(60),
            negative_ttl: Duration::from_secs(5),
            age_max: None,
            jitter: 0.1,
            strict: false,
            max_stale: Duration::from_secs(600),
            value_bytes_max: 256 * 1024,
            soft_timeout: Duration::from_millis(100),
            hard_timeout: Duration::from_secs(2),
            load_bound: Duration::from_secs(10),
            loads_in_flight: 64,
            load_queue_wait: Duration::from_millis(500),
            batch_chunk: 500,
            early_refresh: 0.85,
            late_writes: 1_024,
            weigh,
        }
    }
}

impl<V> Policy<V> {
    /// Returns the policy with the TTLs that [`age_max`](Self::age_max) leaves to memory. `is_shared`: a copy
    /// may have spent its part of the time in the shared tier.
    pub(crate) fn limited(mut self, is_shared: bool) -> Self {
        let Some(age_max) = self.age_max else { return self };
        let most = if is_shared { age_max / 2 } else { age_max };
        self.ttl = self.ttl.min(most);
        self.negative_ttl = self.negative_ttl.min(most);
        self.soft_timeout = self.hard_timeout;
        self
    }

    /// How long the shared tier may keep a copy; `None`: its default.
    pub(crate) fn shared_age_max(&self) -> Option<Duration> {
        self.age_max.filter(|_| rules::shared_age()).map(|age_max| age_max / 2)
    }
}

impl<V> Clone for Policy<V> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<V> fmt::Debug for Policy<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.name).finish_non_exhaustive()
    }
}
