//! Metrics of how a node follows the log, as they are exported.

use metrics::{counter, gauge};

use super::ClusterNode;
use crate::metrics::{
    bus::{APPLIED, ENTRIES, EPOCH, FED, FORGED, PROBES_FAILED, QUEUE, REPAIRS, TRUSTED},
    metric::float,
};

impl ClusterNode {
    /// Brings the metrics of the log up to date. Call it before metrics are rendered.
    pub fn export_metrics(&self) {
        let (tally, node) = (&self.tally, &self.node);
        let replayed = tally.replayed.get();
        counter!(ENTRIES.name, "how" => "replayed").absolute(replayed);
        counter!(ENTRIES.name, "how" => "heard").absolute(tally.applied.get().saturating_sub(replayed));
        let causes = [
            ("gap", &tally.gaps),
            ("cut", &tally.cuts),
            ("fork", &tally.forks),
            ("baseline", &tally.baselines),
        ];
        for (cause, count) in causes {
            counter!(REPAIRS.name, "cause" => cause).absolute(count.get());
        }
        counter!(FORGED.name).absolute(tally.forged.get());
        counter!(FED.name).absolute(tally.fed.get());
        counter!(PROBES_FAILED.name).absolute(tally.probes_failed.get());
        gauge!(QUEUE.name).set(float(u64::try_from(self.bus.sharing.queue.len()).unwrap_or(u64::MAX)));
        gauge!(TRUSTED.name).set(if node.trusted() { 1.0 } else { 0.0 });
        gauge!(EPOCH.name).set(float(node.epoch()));
        gauge!(APPLIED.name).set(float(node.applied()));
    }
}
