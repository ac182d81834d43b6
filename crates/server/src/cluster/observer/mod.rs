//! Checks on other nodes, as a caller would, whether earlier writes are visible.
//!
//! One node at a time writes the canary and times how long the others take to serve it. Every node checks
//! some of its own writes in the other nodes' memories, and the age of its own copies for records without
//! broadcasts. Findings become metrics, and stale copies log lines. A node that does not answer, or knows
//! that it is cut off, is not counted: no bound applies to it.

mod aged;
mod ask;
mod canary;
#[cfg(test)]
mod fake;
mod findings;
mod nodes;
mod record;
mod sample;

use std::{sync::Arc, time::Duration};

use kith_service::write::{caches::CacheFactory, mutations::Mutations, tasks::Tasks};
use kith_store::Stores;
use parking_lot::Mutex;
use rand::Rng as _;
use tokio::{sync::mpsc, time::sleep};

use self::{ask::Nodes, canary::CanaryBounds, findings::Findings, nodes::ClusterNodes, record::CANARIES};
pub(crate) use self::{findings::ObserverCounts, record::CanaryRecord, sample::Samples};
use crate::{
    cluster::Cluster,
    config::{Config, ObserverConfig},
};

/// The observer on one cluster node.
#[derive(Debug)]
pub(crate) struct Observer {
    config: ObserverConfig,
    record: CanaryRecord,
    nodes: Arc<dyn Nodes>,
    bounds: CanaryBounds,
    samples: Arc<Samples>,
    observed: Arc<ObserverCounts>,
    /// Taken when it starts.
    sampled: Mutex<Option<mpsc::Receiver<sample::Sample>>>,
    /// The tasks, which end with this value.
    tasks: Tasks,
}

impl Observer {
    /// Creates the observer for a cluster node, without starting it. `mutations` are the node's.
    pub(crate) fn new(
        stores: &Stores,
        config: &Config,
        caches: &CacheFactory,
        cluster: &Arc<Cluster>,
        mutations: Mutations,
    ) -> Self {
        let observer = config.observer.clone();
        let (samples, sampled) = Samples::new(observer.sample_every, observer.waiting_max);
        // Shorter than the last holder's pause, so that others get the lease.
        let lasts = check_period(&observer).mul_f64(0.75);
        Self {
            record: CanaryRecord::new(stores, caches, mutations, lasts),
            nodes: Arc::new(ClusterNodes::new(Arc::clone(cluster))),
            bounds: CanaryBounds { shown: observer.bound, trust: config.cluster.trust },
            samples,
            observed: Arc::default(),
            sampled: Mutex::new(Some(sampled)),
            tasks: Tasks::default(),
            config: observer,
        }
    }

    /// The canary, for requests from other nodes.
    pub(crate) const fn record(&self) -> &CanaryRecord {
        &self.record
    }

    /// The findings since the start.
    pub(crate) fn observed(&self) -> Arc<ObserverCounts> {
        Arc::clone(&self.observed)
    }

    /// The queue with writes to be checked. `None` if writes are not checked.
    pub(crate) fn samples(&self) -> Option<Arc<Samples>> {
        self.config.enabled.then(|| Arc::clone(&self.samples))
    }

    /// Starts it, if it is enabled.
    pub(crate) fn start(&self) {
        let Some(sampled) = self.sampled.lock().take().filter(|_| self.config.enabled) else { return };
        let findings = Arc::new(Findings::new(self.bounds.shown, self.observed()));
        let tasks = &self.tasks;
        let (nodes, trust) = (Arc::clone(&self.nodes), self.bounds.trust);
        tasks.spawn(sample::follow(sampled, nodes, Arc::clone(&findings), trust));
        let aged =
            aged::follow(Arc::new(self.record.clone()), Arc::clone(&self.nodes), Arc::clone(&findings));
        tasks.spawn(aged);
        let (record, nodes) = (self.record.clone(), Arc::clone(&self.nodes));
        let (bounds, every) = (self.bounds, check_period(&self.config));
        tasks.spawn(async move {
            let mut pause = retry_pause(every);
            loop {
                sleep(pause).await;
                let checked = canary::check(&record, &*nodes, &findings, bounds).await;
                pause = if checked { every.mul_f64(1.25) } else { retry_pause(every) };
            }
        });
    }

    /// Stops the observer. A canary write that is in progress runs to its end.
    pub(crate) async fn stop(&self) {
        self.tasks.end().await;
    }
}

/// How often a check begins. Its lease outlasts its bound: otherwise a node that wrote the next canary itself
/// would return a newer version, whatever it missed.
fn check_period(config: &ObserverConfig) -> Duration {
    config.canary_every.max(config.bound.mul_f64(5.0 / 3.0))
}

/// Pause before the next attempt to acquire the lease. Random, so that each node gets it at times, and never
/// longer than the time from the lease's end to its holder's next attempt.
fn retry_pause(every: Duration) -> Duration {
    every.mul_f64(rand::rng().random_range(0.25..0.5))
}
