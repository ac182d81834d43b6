//! A node of a cluster: how it joins an epoch, and joins again if it cannot continue (ADR 0012).

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{FollowerStats, FollowerStatus, LogPosition, RecentChanges, SharedBus, follower::Follower};
use crate::{
    Node, Random, ThreadRandom,
    remote::shared::{Heartbeat, SharedBackend, SharedError},
};

/// First pause between two attempts to continue after a disconnection.
const RETRY_FIRST: Duration = Duration::from_millis(20);

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

/// Why following ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::remote) enum FollowEnd {
    /// The server or the store did not answer.
    Unavailable,
    /// There is a higher epoch.
    Moved,
    /// The log is not the log that was followed, or the server does not belong to the epoch.
    Fork,
}

impl From<SharedError> for FollowEnd {
    fn from(_: SharedError) -> Self {
        Self::Unavailable
    }
}

impl ClusterNode {
    /// A node that does not follow a log yet, and spreads its retries by [`ThreadRandom`].
    #[must_use]
    pub fn new(node: Node, bus: Arc<SharedBus>, about: Arc<dyn About>, config: FollowerConfig) -> Self {
        let (recent, stats, random) = (Arc::default(), Arc::default(), Arc::new(ThreadRandom));
        Self { node, bus, about, recent, stats, config, random }
    }

    /// Follows the log until it is dropped. Trust then ends at its deadline.
    pub async fn follow(&self) {
        loop {
            let Err(end) = self.try_follow().await;
            tracing::debug!(?end, "stopped following the log; joining again");
            sleep(self.config.retry_max.mul_f64(0.1 + 0.9 * self.random.unit())).await;
        }
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

    async fn try_follow(&self) -> Result<std::convert::Infallible, FollowEnd> {
        let mut follower = self.join().await?;
        let mut end = follower.run().await;
        loop {
            end = match end {
                FollowEnd::Unavailable => {
                    self.stats.cuts.add(1);
                    self.rejoin(&mut follower).await
                }
                FollowEnd::Fork => {
                    self.stats.forks.add(1);
                    self.raise_epoch(follower.epoch, &follower.server).await;
                    return Err(FollowEnd::Fork);
                }
                FollowEnd::Moved => return Err(FollowEnd::Moved),
            };
        }
    }

    /// Raises the epoch, and repeats this until it succeeds: before that, this log must not be followed.
    async fn raise_epoch(&self, epoch: u64, server: &str) {
        while self.bus.epochs.raise(epoch, server).await.is_err() {
            sleep(self.config.retry_max).await;
        }
    }

    /// Subscribes first, and then reads the baseline: entries that are published in between are received.
    async fn join(&self) -> Result<Follower<'_>, FollowEnd> {
        let (epoch, server) = self.bus.epochs.current().await?;
        let frames = self.shared().subscribe(epoch, self.bus.id).await?;
        // A position has no meaning in another log.
        let probed = self.shared().enter(epoch, &Heartbeat { applied: 0, ..self.heartbeat(epoch) }).await?;
        // It is another server, or the store was restored to an earlier epoch than nodes have already seen.
        if probed.server != server || probed.epoch > epoch {
            self.bus.epochs.raise(epoch, &probed.server).await?;
            return Err(FollowEnd::Moved);
        }
        let position = LogPosition::at(probed.number, probed.nonce);
        let mut follower = Follower::new(self, epoch, server, position, frames);
        follower.adopt(&probed);
        self.shared().accept(&follower.server);
        self.bus.confirmations.start_epoch(epoch, &follower.server);
        self.bus.sharing.queue.requeue_recent(epoch);
        Ok(follower)
    }

    /// Continues after a lost connection, from the known position: replays the missed entries as soon as
    /// possible.
    async fn rejoin(&self, follower: &mut Follower<'_>) -> FollowEnd {
        let mut pause = RETRY_FIRST;
        loop {
            match follower.resume().await {
                Ok(()) => return follower.run().await,
                Err(FollowEnd::Unavailable) => {}
                Err(end) => return end,
            }
            sleep(pause.mul_f64(0.5 + 0.5 * self.random.unit())).await;
            pause = (pause * 2).min(self.config.retry_max);
        }
    }
}
