//! Metrics of how a node follows the log.

use std::time::Duration;

use metrics::{Histogram, histogram};

use super::metric::Metric;

pub(crate) const ENTRIES: Metric = Metric::counter(
    "kith_bus_entries_total",
    &["how"],
    "Entries of the log applied on this node: by broadcast, or replayed.",
);
pub(crate) const REPAIRS: Metric = Metric::counter(
    "kith_bus_repairs_total",
    &["cause"],
    "Repairs of the node's position in the log: a gap, a cut subscription, a fork of the log, a new baseline.",
);
pub(crate) const FORGED: Metric = Metric::counter(
    "kith_bus_forged_total",
    &[],
    "Messages on the channel that no node authenticated, which are ignored, and of a newer version, which \
     empty memory.",
);
pub(crate) const FED: Metric =
    Metric::counter("kith_bus_fed_total", &[], "Changes that only the change feed of the store delivered.");
pub(crate) const FEED_UNREAD: Metric = Metric::gauge(
    "kith_feed_unread_seconds",
    &["feed"],
    "Time since a node read this change feed to its end, as far as this node knows, within 7 s.",
);
pub(crate) const FEED_LAG: Metric = Metric::gauge(
    "kith_feed_lag_seconds",
    &["feed"],
    "Age of the oldest change in this change feed that its reader has neither published nor found published. \
     0 on other nodes.",
);
pub(crate) const PROBES_FAILED: Metric =
    Metric::counter("kith_bus_probes_failed_total", &[], "Probes of this node that were not answered.");
pub(crate) const PROPAGATION: Metric = Metric::histogram(
    "kith_bus_propagation_seconds",
    &[],
    "Time from the publication of a change to its effect here, by the clocks of both machines.",
);
pub(crate) const QUEUE: Metric =
    Metric::gauge("kith_bus_queue_keys", &[], "Changed keys that could not be published yet.");
pub(crate) const TRUSTED: Metric =
    Metric::gauge("kith_bus_trusted", &[], "1 while the node can prove that it missed no change.");
pub(crate) const EPOCH: Metric =
    Metric::gauge("kith_bus_epoch", &[], "Epoch of the copies that nodes share.");
pub(crate) const APPLIED: Metric =
    Metric::gauge("kith_bus_applied", &[], "Number of the last entry of the log applied on this node.");

/// The histogram of propagation times, resolved once.
#[derive(Debug)]
pub(crate) struct Propagation(Histogram);

impl Default for Propagation {
    fn default() -> Self {
        Self(histogram!(PROPAGATION.name))
    }
}

impl Propagation {
    pub(crate) fn record(&self, time: Duration) {
        self.0.record(time);
    }
}
