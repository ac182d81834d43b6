//! A node of a cluster: what it needs to follow the log, and how it describes itself to its peers.

use std::{sync::Arc, time::Duration};

use super::{FollowerStats, FollowerStatus, RecentChanges, SharedBus};
use crate::{
    Node, Random, ThreadRandom,
    remote::shared::{Heartbeat, SharedBackend},
};

/// The times and limits by which a node follows the log.
#[derive(Clone, Copy, Debug)]
pub struct FollowerConfig {
    /// Time between two probes.
    pub probe_every: Duration,
    /// Time between two reads of the epoch in the store.
    pub epoch_check_every: Duration,
    /// How long memory is trusted after a probe was sent. The probe must be answered, and all entries up to
    /// the end of the log in its answer must be applied.
    pub trust: Duration,
    /// How long memory is still not trusted after trust was lost and the server answers again: other nodes
    /// may still have to publish changes.
    pub settle_time: Duration,
    /// Maximum entries that one step of a repair reads.
    pub replay_page: usize,
    /// A repair that has read more entries than this takes a new baseline.
    pub replay_max: u64,
    /// Maximum pause between two attempts to join.
    pub retry_max: Duration,
}

impl Default for FollowerConfig {
    /// The defaults in the order of the fields: 250 ms, 1 s, 1.5 s, 1.5 s, 1,000, 50,000, 500 ms.
    fn default() -> Self {
        Self {
            probe_every: Duration::from_millis(250),
            epoch_check_every: Duration::from_secs(1),
            trust: Duration::from_millis(1_500),
            settle_time: Duration::from_millis(1_500),
            replay_page: 1_000,
            replay_max: 50_000,
            retry_max: Duration::from_millis(500),
        }
    }
}

/// Describes a node to its peers, see [`Heartbeat::about`].
pub trait About: std::fmt::Debug + Send + Sync {
    /// The text for the nodes of this epoch.
    fn text(&self, epoch: u64) -> String;
}

/// The text does not depend on the epoch.
impl About for String {
    fn text(&self, _epoch: u64) -> String {
        self.clone()
    }
}

/// A node of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterNode {
    /// The node whose memory follows the log.
    pub node: Node,
    /// Publishes the changes of the node, through the server whose log it follows.
    pub bus: Arc<SharedBus>,
    /// The description that the node publishes.
    pub about: Arc<dyn About>,
    /// Changes that it has received recently.
    pub recent: Arc<RecentChanges>,
    /// Counts what the follower does.
    pub stats: Arc<FollowerStats>,
    /// Times and bounds.
    pub config: FollowerConfig,
    /// Spreads retries at random.
    pub random: Arc<dyn Random>,
}

impl ClusterNode {
    /// A node that does not follow a log yet, and spreads its retries by [`ThreadRandom`].
    #[must_use]
    pub fn new(node: Node, bus: Arc<SharedBus>, about: Arc<dyn About>, config: FollowerConfig) -> Self {
        let (recent, stats, random) = (Arc::default(), Arc::default(), Arc::new(ThreadRandom));
        Self { node, bus, about, recent, stats, config, random }
    }

    /// The position of the node in the log.
    #[must_use]
    pub fn follower_status(&self) -> FollowerStatus {
        FollowerStatus {
            behind: self.stats.behind(self.node.applied()),
            since_proof: self.node.since_proof(self.config.trust),
            repairs: self.stats.repairs(),
        }
    }

    /// The shared server of the nodes.
    pub(in crate::remote) fn shared(&self) -> &Arc<dyn SharedBackend> {
        &self.bus.sharing.backend
    }

    /// The heartbeat that the node now publishes to this epoch's nodes.
    pub(in crate::remote) fn heartbeat(&self, epoch: u64) -> Heartbeat {
        Heartbeat { node: self.bus.id, applied: self.node.applied(), about: self.about.text(epoch) }
    }
}
