//! All metrics that a node exports, from the services, the caches, the windows and the store.

use kith_service::metric::{METRICS, Metric, MetricKind};
use metrics::{SharedString, Unit};

/// All metrics that this build can export, by name.
#[must_use]
pub fn all() -> Vec<Metric> {
    let mut all: Vec<_> = METRICS.into_iter().chain(kith_cache::METRICS).collect();
    all.extend(kith_delivery::METRICS.into_iter().chain(of_stores()));
    all.sort_by_key(|metric| metric.name);
    all
}

/// The unit that a metric's name ends with. `None`: the metric counts things.
#[must_use]
pub fn unit(metric: &Metric) -> Option<Unit> {
    match metric.name {
        name if name.ends_with("_seconds") => Some(Unit::Seconds),
        name if name.ends_with("_bytes") => Some(Unit::Bytes),
        _ => None,
    }
}

/// Registers each metric's description, for the HELP lines in `/metrics`.
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
