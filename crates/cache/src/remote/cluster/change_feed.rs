//! Reads the change feed of the store. It publishes the changes of writers that died between commit and broadcast, and
//! the changes that other programs made in the store (ADR 0012).

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::ClusterNode;
use crate::{Invalidation, testing::rules};

/// The change feed of a store, which one node at a time reads.
#[async_trait::async_trait]
pub trait Feed: std::fmt::Debug + Send + Sync + 'static {
    /// Takes the lead, which is a lease of the right to read the feed, or extends it. False: another node has it.
    ///
    /// # Errors
    /// If the store does not answer. The lead may have been taken, and then expires.
    async fn lead(&self, lasts: Duration) -> Result<bool, FeedError>;

    /// Gives up the lead, so that another node need not wait until it expires.
    async fn yield_lead(&self);

    /// Opens the feed after the saved position or, with `at_end`, at its present end.
    ///
    /// # Errors
    /// [`FeedError::Lost`] if no position was saved, or the changes since then are no longer available.
    async fn open(&self, at_end: bool) -> Result<Box<dyn Changes>, FeedError>;

    /// Further changes that must be published after these, for example of lists that may now contain the records. None by
    /// default.
    ///
    /// # Errors
    /// If the store does not answer. All changes are then read again.
    async fn dependent_changes(&self, _changes: &[Invalidation]) -> Result<Vec<Invalidation>, FeedError> {
        Ok(Vec::new())
    }
}

/// An open feed.
#[async_trait::async_trait]
pub trait Changes: std::fmt::Debug + Send {
    /// The next changes, in the order of the store. Empty if there are none for this long.
    ///
    /// # Errors
    /// If the store does not answer, or the feed ended.
    async fn next(&mut self, patience: Duration) -> Result<Vec<Invalidation>, FeedError>;

    /// Saves the position after the returned changes, which are all published. False: another node leads.
    ///
    /// # Errors
    /// If the store does not answer.
    async fn save(&mut self) -> Result<bool, FeedError>;
}

/// Why a feed returns no changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// The store does not answer.
    #[error("the change feed does not answer")]
    Unavailable,
    /// The position was lost, or changes after it are no longer available.
    #[error("the change feed does not reach back far enough")]
    Lost,
}

/// The times by which a feed is read.
#[derive(Clone, Copy, Debug)]
pub struct FeedTiming {
    /// How long the lead lasts without an extension.
    pub lease: Duration,
    /// Time between two attempts to lead, and between two extensions of the lead.
    pub try_every: Duration,
    /// How long to wait for the writer's own publication before a change is published for it.
    pub grace: Duration,
    /// Time between two saves.
    pub save_every: Duration,
}

impl Default for FeedTiming {
    /// 9 s, 500 ms, 250 ms, 1 s: together with about a second of reading, at most 11 s.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(9),
            try_every: Duration::from_millis(500),
            grace: Duration::from_millis(250),
            save_every: Duration::from_secs(1),
        }
    }
}

/// Reads the feed while this node leads, and publishes the changes that no writer published.
#[derive(Debug)]
pub struct FeedReader {
    /// The node that publishes the changes, and raises the epoch if some were missed.
    pub member: ClusterNode,
    /// The feed that is read.
    pub feed: Arc<dyn Feed>,
    /// The times by which it is read.
    pub timing: FeedTiming,
}

impl FeedReader {
    /// Reads, or waits for the lead, until it is dropped. Then its lead expires.
    pub async fn read(&self) {
        loop {
            if self.feed.lead(self.timing.lease).await == Ok(true) {
                self.member.recent.remember(true);
                if let Err(error) = self.read_as_leader().await {
                    tracing::debug!(?error, "stopped reading the change feed");
                }
                self.member.recent.remember(false);
                self.feed.yield_lead().await;
            }
            sleep(self.timing.try_every.mul_f64(0.5 + 0.5 * self.member.random.unit())).await;
        }
    }

    /// Reads until the lead is lost, the store does not answer, or a change cannot be published. Then another node may lead:
    /// it may reach the server that this node does not reach.
    async fn read_as_leader(&self) -> Result<(), FeedError> {
        let epoch = self.member.node.epoch();
        let mut changes = self.open().await?;
        let (mut extended, mut saved) = (Instant::now(), Instant::now());
        loop {
            let batch = changes.next(self.timing.try_every).await?;
            // Changes published in a log that nodes have left may be lost with it: they are read again.
            if !self.publish(epoch, batch).await && rules::feed_left() || self.member.node.epoch() != epoch {
                return Ok(());
            }
            if saved.elapsed() >= self.timing.save_every {
                saved = Instant::now();
                if !changes.save().await? {
                    return Ok(());
                }
            }
            if extended.elapsed() >= self.timing.try_every {
                extended = Instant::now();
                if !self.feed.lead(self.timing.lease).await? {
                    return Ok(());
                }
            }
        }
    }

    /// Opens the feed at the saved position. If the position is lost, opens the feed at its end, and then discards all
    /// copies. In this order no change is missed in between.
    async fn open(&self) -> Result<Box<dyn Changes>, FeedError> {
        match self.feed.open(false).await {
            Err(FeedError::Lost) => {}
            opened => return opened,
        }
        let mut changes = self.feed.open(true).await?;
        tracing::info!("the position in the change feed of the store was lost: all copies are discarded");
        self.member.bus.discard_copies().await.map_err(|_| FeedError::Unavailable)?;
        changes.save().await?;
        Ok(changes)
    }

    /// Publishes the changes that their writers do not publish within `grace`. False: a change could not be published.
    async fn publish(&self, epoch: u64, batch: Vec<Invalidation>) -> bool {
        if batch.is_empty() || !rules::feed_publishes() {
            return true;
        }
        sleep(self.timing.grace).await;
        let missing: Vec<Invalidation> =
            batch.into_iter().filter(|change| self.is_missing(epoch, change)).collect();
        self.member.stats.fed.add(u64::try_from(missing.len()).unwrap_or(u64::MAX));
        if self.member.bus.publish_now(&self.member.node, &missing).await.is_err() {
            return false;
        }
        let Ok(further) = self.feed.dependent_changes(&missing).await else { return false };
        self.member.bus.publish_now(&self.member.node, &further).await.is_ok()
    }

    /// Whether no writer has published a change. Must be called in the order of the changes: after a change without a
    /// version, such as the removal of a document by hand, the same version may occur again with another state.
    fn is_missing(&self, epoch: u64, change: &Invalidation) -> bool {
        match change.version {
            Some(version) => !self.member.recent.knows(epoch, change.namespace, &change.key, version),
            None => {
                self.member.recent.forget(change.namespace, &change.key);
                true
            }
        }
    }
}
