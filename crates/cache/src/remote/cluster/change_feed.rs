//! The store's change feed: it publishes the changes of writers that died between commit and broadcast, and what other
//! programs wrote into the store (coherence, "Change feeds").

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::ClusterNode;
use crate::{Invalidation, testing::rules};

/// The change feed of a store, which one node at a time reads.
#[async_trait::async_trait]
pub trait Feed: std::fmt::Debug + Send + Sync + 'static {
    /// Takes the lead of reading, or extends it, for this long. False: another node has it.
    ///
    /// # Errors
    /// If the store does not answer; the lead may be taken, and expires.
    async fn lead(&self, lasts: Duration) -> Result<bool, FeedError>;

    /// Gives the lead up, so that another node need not wait for its end.
    async fn yield_lead(&self);

    /// Opens the feed after the last change that was saved, or, `again`, at the present.
    ///
    /// # Errors
    /// [`FeedError::Lost`] if no position was saved, or the changes since then are no longer available.
    async fn open(&self, anew: bool) -> Result<Box<dyn Changes>, FeedError>;

    /// Further changes that must be published after these, for example of lists to which the records may belong now.
    /// None unless a feed overrides this.
    ///
    /// # Errors
    /// If the store does not answer; the changes are then read again.
    async fn besides(&self, _changes: &[Invalidation]) -> Result<Vec<Invalidation>, FeedError> {
        Ok(Vec::new())
    }
}

/// An open feed.
#[async_trait::async_trait]
pub trait Changes: std::fmt::Debug + Send {
    /// The next changes, in the order of the store; none if there are none for this long.
    ///
    /// # Errors
    /// When the store does not answer, or the feed ended.
    async fn next(&mut self, patience: Duration) -> Result<Vec<Invalidation>, FeedError>;

    /// All that was returned is published: from now on the feed is opened after it. False: another node leads.
    ///
    /// # Errors
    /// If the store does not answer.
    async fn save(&mut self) -> Result<bool, FeedError>;
}

/// Why a feed returns no changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// The store does not answer.
    #[error("the change feed is away")]
    Away,
    /// Changes were missed for good.
    #[error("the change feed does not go back so far")]
    Lost,
}

/// How a feed is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// How long the lead lasts without an extension.
    pub lease: Duration,
    /// Time between two attempts to lead, and between two extensions of the lead.
    pub try_every: Duration,
    /// How long to wait for the writer's own publication before a change is published for it.
    pub grace: Duration,
    /// Time between two saves.
    pub save_every: Duration,
}

impl Default for Reading {
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

/// Reads the feed when it is this node's turn, and publishes what no writer published.
#[derive(Debug)]
pub struct FeedReader {
    /// The node that publishes the changes, and raises the epoch if some were missed.
    pub member: ClusterNode,
    /// What is read.
    pub feed: Arc<dyn Feed>,
    /// Times.
    pub reading: Reading,
}

impl FeedReader {
    /// Reads, or waits for its turn, until it is dropped. Then its lead expires.
    pub async fn read(&self) {
        loop {
            if self.feed.lead(self.reading.lease).await == Ok(true) {
                self.member.recent.remember(true);
                if let Err(error) = self.lead().await {
                    tracing::debug!(?error, "reads the change feed no longer");
                }
                self.member.recent.remember(false);
                self.feed.yield_lead().await;
            }
            sleep(self.reading.try_every.mul_f64(0.5 + 0.5 * self.member.random.unit())).await;
        }
    }

    /// Reads until the lead is lost, the store does not answer, or a change cannot be published: another node may reach
    /// what this one does not.
    async fn lead(&self) -> Result<(), FeedError> {
        let epoch = self.member.node.epoch();
        let mut changes = self.open().await?;
        let (mut kept, mut saved) = (Instant::now(), Instant::now());
        loop {
            let batch = changes.next(self.reading.try_every).await?;
            // What was published in a log that nodes have left may be lost with it: it is read again.
            if !self.tell(epoch, batch).await && rules::feed_left() || self.member.node.epoch() != epoch {
                return Ok(());
            }
            if saved.elapsed() >= self.reading.save_every {
                saved = Instant::now();
                if !changes.save().await? {
                    return Ok(());
                }
            }
            if kept.elapsed() >= self.reading.try_every {
                kept = Instant::now();
                if !self.feed.lead(self.reading.lease).await? {
                    return Ok(());
                }
            }
        }
    }

    /// Opens the feed at the saved position. If that is lost, every copy is discarded, after the feed is open again, so
    /// that no change is missed in between.
    async fn open(&self) -> Result<Box<dyn Changes>, FeedError> {
        match self.feed.open(false).await {
            Err(FeedError::Lost) => {}
            opened => return opened,
        }
        let mut changes = self.feed.open(true).await?;
        tracing::info!("the change feed of the store begins again: all copies are discarded");
        self.member.bus.give_up_copies().await.map_err(|_| FeedError::Away)?;
        changes.save().await?;
        Ok(changes)
    }

    /// Publishes what the writers did not publish meanwhile. False: it is not possible.
    async fn tell(&self, epoch: u64, batch: Vec<Invalidation>) -> bool {
        if batch.is_empty() || !rules::feed_tells() {
            return true;
        }
        sleep(self.reading.grace).await;
        let untold: Vec<Invalidation> =
            batch.into_iter().filter(|change| self.is_untold(epoch, change)).collect();
        self.member.tally.fed.add(u64::try_from(untold.len()).unwrap_or(u64::MAX));
        if self.member.bus.tell_now(&self.member.node, &untold).await.is_err() {
            return false;
        }
        let Ok(besides) = self.feed.besides(&untold).await else { return false };
        self.member.bus.tell_now(&self.member.node, &besides).await.is_ok()
    }

    /// Whether a change has to be broadcast. Must be called in the order of the changes: after one without a version,
    /// such as that of a document that was removed by hand, the same version may occur again with another state.
    fn is_untold(&self, epoch: u64, change: &Invalidation) -> bool {
        match change.version {
            Some(version) => !self.member.recent.knows(epoch, change.namespace, &change.key, version),
            None => {
                self.member.recent.forget(change.namespace, &change.key);
                true
            }
        }
    }
}
