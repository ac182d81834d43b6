//! Names and meanings of all metrics of the cache.

use std::{sync::Once, time::Duration};

use metrics::{
    Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::counters::{Counter, Counters, Rejection};

const REQUESTS: &str = "kith_cache_requests_total";
const LOAD_SECONDS: &str = "kith_cache_load_seconds";
const LOADS_IN_FLIGHT: &str = "kith_cache_loads_in_flight";
const LOADS: &str = "kith_cache_loads_total";
const LOAD_ERRORS: &str = "kith_cache_load_errors_total";
const JOINED: &str = "kith_cache_joined_total";
const FILL_REJECTED: &str = "kith_cache_fill_rejected_total";
const INVALIDATIONS: &str = "kith_cache_invalidations_total";
const STALE_SERVED: &str = "kith_cache_stale_served_total";
const SHED: &str = "kith_cache_shed_total";
const MEMORY_BYTES: &str = "kith_cache_memory_bytes";
const ENTRIES: &str = "kith_cache_entries";
const EVICTIONS: &str = "kith_cache_evictions_total";

/// How long loads take, resolved once.
pub(crate) struct LoadSeconds(Histogram);

impl LoadSeconds {
    pub(crate) fn new(namespace: &'static str) -> Self {
        Self(histogram!(LOAD_SECONDS, "namespace" => namespace))
    }

    pub(crate) fn record(&self, time: Duration) {
        self.0.record(time);
    }
}

/// What memory says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryNow {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) evictions: u64,
}

/// Brings the metrics of a namespace up to its counters. They are not raised one by one, so that a hit
/// costs one addition.
pub(crate) fn export(namespace: &'static str, counters: &Counters, memory: MemoryNow) {
    describe();
    requests(namespace, counters);
    let total = |name: &'static str, value: &Counter| {
        counter!(name, "namespace" => namespace).absolute(value.get());
    };
    total(LOADS, &counters.loads);
    total(LOAD_ERRORS, &counters.load_errors);
    total(JOINED, &counters.joined);
    total(SHED, &counters.shed);
    let labelled = |name: &'static str, label: &'static str, which: &'static str, value: &Counter| {
        counter!(name, "namespace" => namespace, label => which).absolute(value.get());
    };
    for rejection in Rejection::ALL {
        labelled(FILL_REJECTED, "reason", rejection.as_str(), counters.rejected(rejection));
    }
    labelled(INVALIDATIONS, "direction", "sent", &counters.invalidations_sent);
    labelled(INVALIDATIONS, "direction", "received", &counters.invalidations_received);
    labelled(STALE_SERVED, "reason", "slow", &counters.stale_slow);
    labelled(STALE_SERVED, "reason", "error", &counters.stale_error);
    counter!(EVICTIONS, "namespace" => namespace, "cause" => "size").absolute(memory.evictions);
    gauge!(LOADS_IN_FLIGHT, "namespace" => namespace).set(float(counters.loads_in_flight.get()));
    gauge!(ENTRIES, "namespace" => namespace).set(float(memory.entries));
    gauge!(MEMORY_BYTES, "namespace" => namespace).set(float(memory.bytes));
}

fn requests(namespace: &'static str, counters: &Counters) {
    let results = [
        ("memory", "hit", &counters.hits),
        ("memory", "miss", &counters.misses),
        ("store", "hit", &counters.store_found),
        ("store", "null", &counters.store_absent),
        ("store", "error", &counters.store_errors),
    ];
    for (tier, result, value) in results {
        counter!(REQUESTS, "namespace" => namespace, "tier" => tier, "result" => result)
            .absolute(value.get());
    }
}

fn describe() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        describe_counter!(
            REQUESTS,
            "Keys asked of a tier, by what it answered. A memory hit may be absence."
        );
        describe_histogram!(
            LOAD_SECONDS,
            Unit::Seconds,
            "Time of loads from the store, without their queue."
        );
        describe_gauge!(LOADS_IN_FLIGHT, "Loads that are with the store.");
        describe_counter!(LOADS, "Loads sent to the store. A chunk of a batch is one.");
        describe_counter!(LOAD_ERRORS, "Loads that failed, timed out or were shed.");
        describe_counter!(JOINED, "Reads that waited for a load of another.");
        describe_counter!(FILL_REJECTED, "Loaded values that were not kept, by the rule that forbade it.");
        describe_counter!(INVALIDATIONS, "Changed keys told to, and heard from, the bus.");
        describe_counter!(
            STALE_SERVED,
            "Answers given after their expiry, by what kept the store from answering."
        );
        describe_counter!(SHED, "Loads refused because too many waited for the store.");
        describe_gauge!(MEMORY_BYTES, Unit::Bytes, "Weight of the copies in memory.");
        describe_gauge!(ENTRIES, "Copies in memory.");
        describe_counter!(EVICTIONS, "Copies given up.");
    });
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; so large a count needs no last digit")]
const fn float(number: u64) -> f64 {
    number as f64
}
