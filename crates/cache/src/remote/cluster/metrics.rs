//! Exports the metrics of a node that follows the log.

use metrics::{counter, gauge};

use super::ClusterNode;
use crate::metrics::{
    bus::{
        APPLIED, ENTRIES, EPOCH, FED, FEED_LAG, FEED_UNREAD, FORGED, PROBES_FAILED, QUEUE, REPAIRS, TRUSTED,
    },
    metric::float,
};

impl ClusterNode {
    /// Updates the metrics of the log. Must be called before metrics are rendered.
    pub fn export_metrics(&self) {
        let (stats, node) = (&self.stats, &self.node);
        let replayed = stats.replayed.get();
        counter!(ENTRIES.name, "how" => "replayed").absolute(replayed);
        counter!(ENTRIES.name, "how" => "heard").absolute(stats.applied.get().saturating_sub(replayed));
        let causes = [
            ("gap", &stats.gaps),
            ("cut", &stats.cuts),
            ("fork", &stats.forks),
            ("baseline", &stats.baselines),
        ];
        for (cause, count) in causes {
            counter!(REPAIRS.name, "cause" => cause).absolute(count.get());
        }
        counter!(FORGED.name).absolute(stats.forged.get());
        counter!(FED.name).absolute(stats.fed.get());
        for (feed, unread) in stats.feeds.since() {
            gauge!(FEED_UNREAD.name, "feed" => feed).set(unread.as_secs_f64());
        }
        for (feed, lag) in stats.feeds.lags() {
            gauge!(FEED_LAG.name, "feed" => feed).set(lag.as_secs_f64());
        }
        counter!(PROBES_FAILED.name).absolute(stats.probes_failed.get());
        gauge!(QUEUE.name).set(float(u64::try_from(self.bus.sharing.queue.len()).unwrap_or(u64::MAX)));
        gauge!(TRUSTED.name).set(if node.trusted() { 1.0 } else { 0.0 });
        gauge!(EPOCH.name).set(float(node.epoch()));
        gauge!(APPLIED.name).set(float(node.applied()));
    }
}
