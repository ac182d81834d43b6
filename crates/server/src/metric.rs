//! Names and meanings of all metrics of the process, those of the memory tier and of the store among them.

pub use kith_cache::{Metric, MetricKind};
use metrics::{SharedString, Unit};

/// Of the node itself; each is described and documented by being in here.
const OWN: [Metric; 19] = [
    SERVING,
    RPC_REQUESTS,
    RPC_SECONDS,
    RPC_IN_FLIGHT,
    RPC_SHED,
    CONNECTIONS,
    CONNECTIONS_REFUSED,
    MUTATIONS_IN_FLIGHT,
    MUTATIONS_SHED,
    LOG_LINES_DROPPED,
    REDIS_BREAKER_OPENED,
    REDIS_GARBLED,
    OBSERVER_LAG,
    OBSERVER_CHECKED,
    OBSERVER_STALE,
    EDGES_CHECKED,
    EDGE_DIFFERENCES,
    EDGE_COUNTS_CORRECTED,
    EDGES_REMOVED,
];

pub(crate) const SERVING: Metric = Metric::gauge(
    "kith_serving",
    &[],
    "1 while the node answers, 0 while it starts, stops or lacks its store.",
);
pub(crate) const RPC_REQUESTS: Metric = Metric::counter(
    "kith_rpc_requests_total",
    &["service", "method", "code"],
    "Calls answered, by their gRPC code; CANCELLED where the caller went away first.",
);
pub(crate) const RPC_SECONDS: Metric = Metric::histogram(
    "kith_rpc_seconds",
    &["service", "method"],
    "Time from the head of a call to the end of its answer.",
);
pub(crate) const RPC_IN_FLIGHT: Metric =
    Metric::gauge("kith_rpc_in_flight", &[], "Calls being handled, health and reflection not counted.");
pub(crate) const RPC_SHED: Metric =
    Metric::counter("kith_rpc_shed_total", &[], "Calls turned away because too many were in flight.");
pub(crate) const CONNECTIONS: Metric =
    Metric::gauge("kith_connections", &[], "Connections of the gRPC port that are open.");
pub(crate) const CONNECTIONS_REFUSED: Metric = Metric::counter(
    "kith_connections_refused_total",
    &[],
    "Connections closed at once because `limits.connections` were open.",
);
pub(crate) const MUTATIONS_IN_FLIGHT: Metric =
    Metric::gauge("kith_mutations_in_flight", &[], "Writes that have begun and not ended.");
pub(crate) const MUTATIONS_SHED: Metric = Metric::counter(
    "kith_mutations_shed_total",
    &[],
    "Writes turned away because the store could not be expected to come to them in time.",
);
pub(crate) const LOG_LINES_DROPPED: Metric = Metric::counter(
    "kith_log_lines_dropped_total",
    &[],
    "Log lines dropped because nobody took them from the process in time.",
);

pub(crate) const REDIS_BREAKER_OPENED: Metric = Metric::counter(
    "kith_redis_breaker_opened_total",
    &[],
    "Times that Redis was given up for a while because it did not answer; the store is asked meanwhile.",
);
pub(crate) const REDIS_GARBLED: Metric = Metric::counter(
    "kith_redis_garbled_total",
    &[],
    "Messages on the channels for wakes and confirmations that no node can have sent. They are not believed.",
);

pub(crate) const OBSERVER_LAG: Metric = Metric::histogram(
    "kith_observer_lag_seconds",
    &[],
    "Time from the acknowledgement of a canary that this node wrote until another node served it.",
);
pub(crate) const OBSERVER_CHECKED: Metric = Metric::counter(
    "kith_observer_checked_total",
    &["after"],
    "Nodes that said what they hold of a write of this node, by its age; of the canary, `observer.bound`.",
);
pub(crate) const OBSERVER_STALE: Metric = Metric::counter(
    "kith_observer_stale_total",
    &["after"],
    "Of these, nodes that trusted their memory and held something older. Above 0 at 10s or 60s: a defect.",
);

pub(crate) const EDGES_CHECKED: Metric = Metric::counter(
    "kith_edges_checked_total",
    &[],
    "Follows and places in lists that VerifyEdges and RepairEdges compared.",
);
pub(crate) const EDGE_DIFFERENCES: Metric = Metric::counter(
    "kith_edge_differences_total",
    &["kind"],
    "Follows and places that did not agree, each time they were found. Above 0: a damaged store or a defect.",
);
pub(crate) const EDGE_COUNTS_CORRECTED: Metric = Metric::counter(
    "kith_edge_counts_corrected_total",
    &[],
    "Lists of follows that were not as long as was noted, corrected by RebuildCounts.",
);
pub(crate) const EDGES_REMOVED: Metric = Metric::counter(
    "kith_edges_removed_total",
    &["kind"],
    "Follows and blocks ended because one of their users was deleted.",
);

/// All metrics that this build can export, by name.
#[must_use]
pub fn all() -> Vec<Metric> {
    let mut all: Vec<_> = OWN.into_iter().chain(kith_cache::METRICS).chain(of_stores()).collect();
    all.sort_by_key(|metric| metric.name);
    all
}

/// The unit of a metric, which its name ends with; `None`: it counts things.
#[must_use]
pub fn unit(metric: &Metric) -> Option<Unit> {
    match metric.name {
        name if name.ends_with("_seconds") => Some(Unit::Seconds),
        name if name.ends_with("_bytes") => Some(Unit::Bytes),
        _ => None,
    }
}

/// Tells the recorder what each means, for the HELP lines of `/metrics`.
pub(crate) fn describe() {
    for metric in all() {
        let help = SharedString::from(metric.help);
        let unit = unit(&metric).unwrap_or(Unit::Count);
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(metric.name, unit, help),
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, unit, help),
            MetricKind::Histogram => metrics::describe_histogram!(metric.name, unit, help),
        }
    }
}

#[cfg(feature = "embedded")]
fn of_stores() -> Vec<Metric> {
    let own = |metric: kith_store_sqlite::Metric| {
        if metric.histogram {
            Metric::histogram(metric.name, &[], metric.help)
        } else {
            Metric::gauge(metric.name, &[], metric.help)
        }
    };
    kith_store_sqlite::METRICS.map(own).to_vec()
}

#[cfg(not(feature = "embedded"))]
const fn of_stores() -> Vec<Metric> {
    Vec::new()
}
