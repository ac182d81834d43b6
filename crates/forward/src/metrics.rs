//! A forwarder's counts.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::state::now_millis;

/// A metric of a forwarder. None has a label.
#[derive(Clone, Copy, Debug)]
pub struct ForwardMetric {
    /// The exported name.
    pub name: &'static str,
    /// Whether it is a counter; otherwise a gauge.
    pub counter: bool,
    /// The meaning, in one sentence.
    pub help: &'static str,
}

const fn counter(name: &'static str, help: &'static str) -> ForwardMetric {
    ForwardMetric { name, counter: true, help }
}

const fn gauge(name: &'static str, help: &'static str) -> ForwardMetric {
    ForwardMetric { name, counter: false, help }
}

/// All metrics of a forwarder, in the order of [`Progress::values`].
pub const METRICS: [ForwardMetric; 4] = [
    counter("kith_forward_delivered_total", "Events that the receiver has taken."),
    counter("kith_forward_retried_total", "Requests that were sent again after a failure."),
    gauge("kith_forward_lag_seconds", "Time since every change had been delivered or parked."),
    gauge("kith_forward_parked", "Records whose last event the receiver does not have."),
];

/// What a forwarder has done since it began. Shared: the forwarder counts, others read.
#[derive(Debug, Default)]
pub struct Progress {
    pub(crate) delivered: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) parked: AtomicU64,
    /// In milliseconds since 1970.
    pub(crate) caught_up: AtomicU64,
}

impl Progress {
    /// Returns the values of [`METRICS`], in their order.
    #[must_use]
    pub fn values(&self) -> [String; 4] {
        let lag = now_millis().saturating_sub(self.caught_up.load(Relaxed));
        [
            self.delivered.load(Relaxed).to_string(),
            self.retried.load(Relaxed).to_string(),
            format!("{}.{:03}", lag / 1_000, lag % 1_000),
            self.parked.load(Relaxed).to_string(),
        ]
    }

    /// Returns all metrics in the text format of Prometheus.
    #[must_use]
    pub fn exposition(&self) -> String {
        let mut text = String::new();
        for (metric, value) in METRICS.iter().zip(self.values()) {
            let ForwardMetric { name, counter, help } = metric;
            let kind = if *counter { "counter" } else { "gauge" };
            // A string always has room.
            write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n").ok();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exposition_has_a_line_for_each_metric() {
        let progress = Progress::default();
        progress.delivered.store(3, Relaxed);
        progress.caught_up.store(now_millis(), Relaxed);
        let text = progress.exposition();
        assert_eq!(text.lines().count(), 3 * METRICS.len());
        assert!(
            text.contains("# TYPE kith_forward_delivered_total counter\nkith_forward_delivered_total 3\n")
        );
        assert!(text.contains("\nkith_forward_lag_seconds 0."), "{text}");
    }
}
