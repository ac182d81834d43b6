//! How a node of a cluster joins an epoch, and joins again if it cannot continue (ADR 0012).

use std::time::Duration;

use tokio::time::sleep;

use super::{
    ClusterNode, LogPosition,
    follower::{FollowEnd, Follower},
};
use crate::remote::shared::Heartbeat;

/// First pause between two attempts to continue after a disconnection.
const RETRY_FIRST: Duration = Duration::from_millis(20);

impl ClusterNode {
    /// Follows the log until it is dropped. Trust then ends at its deadline.
    pub async fn follow(&self) {
        loop {
            let Err(end) = self.try_follow().await;
            tracing::debug!(?end, "stopped following the log; joining again");
            sleep(self.config.retry_max.mul_f64(0.1 + 0.9 * self.random.unit())).await;
        }
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
