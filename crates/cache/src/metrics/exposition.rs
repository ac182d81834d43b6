//! The metrics of the cache.

use std::time::Duration;

use metrics::{Histogram, counter, gauge, histogram};

use super::{
    bus,
    counters::{Counter, Counters, Rejection},
    metric::{Metric, float},
};

/// Every metric that the cache exports. [`Node::export_metrics`](crate::Node::export_metrics) brings
/// namespace metrics up to date; load times are recorded as they happen.
pub const METRICS: [Metric; 28] = [
    REQUESTS,
    LOAD_SECONDS,
    LOADS_IN_FLIGHT,
    LOADS,
    LOAD_ERRORS,
    JOINED,
    FILL_REJECTED,
    INVALIDATIONS,
    STALE_SERVED,
    SHED,
    MEMORY_BYTES,
    ENTRIES,
    EVICTIONS,
    LEASES,
    RESYNC_CHECKED,
    RESYNC_STALE,
    bus::ENTRIES,
    bus::REPAIRS,
    bus::FORGED,
    bus::FED,
    bus::FEED_UNREAD,
    bus::FEED_LAG,
    bus::PROBES_FAILED,
    bus::PROPAGATION,
    bus::QUEUE,
    bus::TRUSTED,
    bus::EPOCH,
    bus::APPLIED,
];

const REQUESTS: Metric = Metric::counter(
    "kith_cache_requests_total",
    &["namespace", "tier", "result"],
    "Keys requested from a tier, by its answer. A memory hit may be an absence.",
);
const LOAD_SECONDS: Metric = Metric::histogram(
    "kith_cache_load_seconds",
    &["namespace"],
    "Time of loads from the store, without their queue.",
);
const LOADS_IN_FLIGHT: Metric =
    Metric::gauge("kith_cache_loads_in_flight", &["namespace"], "Loads in progress at the store.");
const LOADS: Metric = Metric::counter(
    "kith_cache_loads_total",
    &["namespace"],
    "Loads sent to the store. A chunk of a batch is one.",
);
const LOAD_ERRORS: Metric = Metric::counter(
    "kith_cache_load_errors_total",
    &["namespace"],
    "Loads that failed, timed out or were shed.",
);
const JOINED: Metric = Metric::counter(
    "kith_cache_joined_total",
    &["namespace"],
    "Reads that waited for a load of another read.",
);
const FILL_REJECTED: Metric = Metric::counter(
    "kith_cache_fill_rejected_total",
    &["namespace", "reason"],
    "Loaded values that were not cached, by the rule that forbids it.",
);
const INVALIDATIONS: Metric = Metric::counter(
    "kith_cache_invalidations_total",
    &["namespace", "direction"],
    "Changed keys published to, and received from, the bus.",
);
const STALE_SERVED: Metric = Metric::counter(
    "kith_cache_stale_served_total",
    &["namespace", "reason"],
    "Expired copies that were returned, by why the store did not answer.",
);
const SHED: Metric =
    Metric::counter("kith_cache_shed_total", &["namespace"], "Loads refused because too many waited.");
const MEMORY_BYTES: Metric =
    Metric::gauge("kith_cache_memory_bytes", &["namespace"], "Weight of the copies in memory.");
const ENTRIES: Metric = Metric::gauge("kith_cache_entries", &["namespace"], "Copies in memory.");
const EVICTIONS: Metric =
    Metric::counter("kith_cache_evictions_total", &["namespace", "cause"], "Copies evicted, by the cause.");

const LEASES: Metric = Metric::counter(
    "kith_cache_leases_total",
    &["namespace", "result"],
    "Loads that asked for a lease in Redis: won, waited, or refused when they filled.",
);
const RESYNC_CHECKED: Metric = Metric::counter(
    "kith_cache_resync_checked_total",
    &["namespace"],
    "Pairs of copies that the periodic re-sync compared.",
);
const RESYNC_STALE: Metric = Metric::counter(
    "kith_cache_resync_stale_total",
    &["namespace", "tier"],
    "Copies that were stale, or cached, for longer than their bound. Above 0: a defect.",
);

/// How long loads take, resolved once.
pub(crate) struct LoadSeconds(Histogram);

impl LoadSeconds {
    pub(crate) fn new(namespace: &'static str) -> Self {
        Self(histogram!(LOAD_SECONDS.name, "namespace" => namespace))
    }

    pub(crate) fn record(&self, time: Duration) {
        self.0.record(time);
    }
}

/// The figures of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryNow {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) evictions: u64,
}

/// Raises a namespace's metrics to its counters, in one step and not with every hit, so that a hit costs one
/// addition.
pub(crate) fn export(namespace: &'static str, counters: &Counters, memory: MemoryNow) {
    requests(namespace, counters);
    let total = |metric: Metric, value: &Counter| {
        counter!(metric.name, "namespace" => namespace).absolute(value.get());
    };
    total(LOADS, &counters.loads);
    total(LOAD_ERRORS, &counters.load_errors);
    total(JOINED, &counters.joined);
    total(SHED, &counters.shed);
    let labelled = |metric: Metric, label: &'static str, which: &'static str, value: &Counter| {
        counter!(metric.name, "namespace" => namespace, label => which).absolute(value.get());
    };
    for rejection in Rejection::ALL {
        labelled(FILL_REJECTED, "reason", rejection.as_str(), counters.rejected(rejection));
    }
    labelled(INVALIDATIONS, "direction", "sent", &counters.invalidations_sent);
    labelled(INVALIDATIONS, "direction", "received", &counters.invalidations_received);
    labelled(LEASES, "result", "won", &counters.leases_won);
    labelled(LEASES, "result", "waited", &counters.leases_waited);
    labelled(LEASES, "result", "refused", &counters.fills_refused);
    total(RESYNC_CHECKED, &counters.resync_checked);
    labelled(RESYNC_STALE, "tier", "memory", &counters.resync_stale_memory);
    labelled(RESYNC_STALE, "tier", "redis", &counters.resync_stale_redis);
    labelled(STALE_SERVED, "reason", "slow", &counters.stale_slow);
    labelled(STALE_SERVED, "reason", "error", &counters.stale_error);
    counter!(EVICTIONS.name, "namespace" => namespace, "cause" => "size").absolute(memory.evictions);
    gauge!(LOADS_IN_FLIGHT.name, "namespace" => namespace).set(float(counters.loads_in_flight.get()));
    gauge!(ENTRIES.name, "namespace" => namespace).set(float(memory.entries));
    gauge!(MEMORY_BYTES.name, "namespace" => namespace).set(float(memory.bytes));
}

fn requests(namespace: &'static str, counters: &Counters) {
    let results = [
        ("memory", "hit", &counters.hits),
        ("memory", "miss", &counters.misses),
        ("redis", "hit", &counters.shared_found),
        ("redis", "null", &counters.shared_absent),
        ("redis", "miss", &counters.shared_missed),
        ("redis", "error", &counters.shared_errors),
        ("store", "hit", &counters.store_found),
        ("store", "null", &counters.store_absent),
        ("store", "error", &counters.store_errors),
    ];
    for (tier, result, value) in results {
        counter!(REQUESTS.name, "namespace" => namespace, "tier" => tier, "result" => result)
            .absolute(value.get());
    }
}
