//! Asks the other nodes, as a caller would, whether what was written a while ago is seen.
//!
//! One node at a time writes the canary and times how long the others take to serve it; every node looks for some
//! of its own writes in the memories of the others, and whether its own copies of records whose changes are not broadcast are
//! within their longest age. What is found goes into metrics, and old copies into the log. A
//! node that does not answer, or knows itself that it is cut off, is not counted: nothing is promised of it.

mod aged;
mod ask;
mod canary;
#[cfg(test)]
mod fake;
mod findings;
mod nodes;
mod record;
mod sample;

use std::{fmt, sync::Arc, time::Duration};

use kith_service::write::{mutations::Mutations, tasks::Tasks, tiers::Tiers};
use kith_store::Stores;
use parking_lot::Mutex;
use rand::Rng as _;
use tokio::{sync::mpsc, time::sleep};

use self::{ask::Nodes, canary::Bounds, findings::Findings, nodes::ClusterNodes, record::CANARIES};
pub(crate) use self::{findings::Observed, record::CanaryRecord, sample::Samples};
use crate::{
    cluster::Cluster,
    config::{Config, ObserverConfig},
};

/// What looks, on one node of a cluster.
pub(crate) struct Observer {
    config: ObserverConfig,
    record: CanaryRecord,
    nodes: Arc<dyn Nodes>,
    bounds: Bounds,
    samples: Arc<Samples>,
    observed: Arc<Observed>,
    /// Taken when it starts.
    sampled: Mutex<Option<mpsc::Receiver<sample::Sample>>>,
    /// They end with this.
    tasks: Tasks,
}

impl Observer {
    /// Of the node of this cluster. It does not look yet. `mutations`: those of the node.
    pub(crate) fn new(
        stores: &Stores,
        config: &Config,
        tiers: &Tiers,
        cluster: &Arc<Cluster>,
        mutations: Mutations,
    ) -> Self {
        let observer = config.observer.clone();
        let (samples, sampled) = Samples::new(observer.sample_every, observer.waiting_max);
        // Shorter than the pause of who had it, so that others get a turn.
        let lasts = turn_every(&observer).mul_f64(0.75);
        Self {
            record: CanaryRecord::new(stores, tiers, mutations, lasts),
            nodes: Arc::new(ClusterNodes::new(Arc::clone(cluster))),
            bounds: Bounds { shown: observer.bound, trust: config.cluster.trust },
            samples,
            observed: Arc::default(),
            sampled: Mutex::new(Some(sampled)),
            tasks: Tasks::default(),
            config: observer,
        }
    }

    /// The canary, for other nodes that ask.
    pub(crate) const fn record(&self) -> &CanaryRecord {
        &self.record
    }

    /// What was found since the start.
    pub(crate) fn observed(&self) -> Arc<Observed> {
        Arc::clone(&self.observed)
    }

    /// The queue for writes that are to be checked; `None`: none are to be checked.
    pub(crate) fn samples(&self) -> Option<Arc<Samples>> {
        self.config.enabled.then(|| Arc::clone(&self.samples))
    }

    /// Begins to look, if it is to.
    pub(crate) fn start(&self) {
        let Some(sampled) = self.sampled.lock().take().filter(|_| self.config.enabled) else { return };
        let findings = Arc::new(Findings::new(self.bounds.shown, self.observed()));
        let tasks = &self.tasks;
        let (nodes, trust) = (Arc::clone(&self.nodes), self.bounds.trust);
        tasks.spawn(sample::follow(sampled, nodes, Arc::clone(&findings), trust));
        tasks.spawn(aged::follow(Arc::new(self.record.clone()), Arc::clone(&findings)));
        let (record, nodes) = (self.record.clone(), Arc::clone(&self.nodes));
        let (bounds, every) = (self.bounds, turn_every(&self.config));
        tasks.spawn(async move {
            let mut pause = while_another(every);
            loop {
                sleep(pause).await;
                let had = canary::turn(&record, &*nodes, &findings, bounds).await;
                pause = if had { every.mul_f64(1.25) } else { while_another(every) };
            }
        });
    }

    /// Looks no more. A canary that is being written is a write like any other, and runs to its end.
    pub(crate) async fn stop(&self) {
        self.tasks.end().await;
    }
}

/// How often a turn begins. The lease of one outlasts its bound: a node that wrote the next canary itself would show
/// something newer, whatever it missed.
fn turn_every(config: &ObserverConfig) -> Duration {
    config.canary_every.max(config.bound.mul_f64(5.0 / 3.0))
}

/// Until it is asked for a turn again. Random, so that each node gets one now and then.
fn while_another(every: Duration) -> Duration {
    every.mul_f64(rand::rng().random_range(0.25..0.75))
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
