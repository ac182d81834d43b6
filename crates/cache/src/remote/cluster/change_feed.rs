//! Reads the change feed of the store. It publishes the changes of writers that died between commit and broadcast, and
//! the changes that other programs made in the store (ADR 0012).

use std::{future::Future, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};

use super::{ClusterNode, discards::Discards};
use crate::{Invalidation, testing::rules};

/// The change feed of a store, which one node at a time reads.
#[async_trait::async_trait]
pub trait Feed: std::fmt::Debug + Send + Sync + 'static {
    /// Its name, in metrics and in the log.
    fn name(&self) -> &str;

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

    /// Restores what the store may have lost together with the changes, such as the indexes of a dropped collection. Is
    /// called before the feed is opened at its end because changes were lost. By default there is nothing to restore.
    ///
    /// # Errors
    /// If the store does not answer, or cannot restore it.
    async fn restore(&self) -> Result<(), FeedError> {
        Ok(())
    }

    /// Notes for the other nodes that this node, which leads, has read the feed to its end. The note expires after this
    /// time.
    ///
    /// # Errors
    /// If the store does not answer.
    async fn note_end(&self, lasts: Duration) -> Result<(), FeedError>;

    /// Whether there is a note of the node that leads, and it has not expired.
    ///
    /// # Errors
    /// If the store does not answer.
    async fn is_end_noted(&self) -> Result<bool, FeedError>;

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
    /// If the store does not answer, or the feed ended. [`FeedError::Lost`] if the changes that follow are not available,
    /// as after a collection was dropped.
    async fn next(&mut self, patience: Duration) -> Result<Vec<Invalidation>, FeedError>;

    /// Whether the changes that were returned last are followed by no others.
    fn is_at_end(&self) -> bool;

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
    /// Time between two notes that the feed was read to its end, and between two reads of such a note.
    pub note_every: Duration,
    /// How long such a note lasts.
    pub note_lasts: Duration,
    /// The first and the longest pause between two losses of the position that discard all copies. It doubles while
    /// positions are lost repeatedly, as when collections are restored one after the other.
    pub discard_pause: (Duration, Duration),
}

impl Default for FeedTiming {
    /// 9 s, 500 ms, 250 ms, 1 s: together with about a second of reading, at most 11 s. Notes: each second, for 5 s. Pauses
    /// of 1 s to 1 min.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(9),
            try_every: Duration::from_millis(500),
            grace: Duration::from_millis(250),
            save_every: Duration::from_secs(1),
            note_every: Duration::from_secs(1),
            note_lasts: Duration::from_secs(5),
            discard_pause: (Duration::from_secs(1), Duration::from_secs(60)),
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

/// Why a leader has stopped reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadEnd {
    /// The nodes moved to another epoch. Changes that were published in the log before may be lost with it: they are read
    /// again, by the same node.
    Epoch,
    /// Another node leads, or a change cannot be published.
    Lead,
}

impl FeedReader {
    /// Reads, or waits for the lead, until it is dropped. Then its lead expires.
    pub async fn read(&self) {
        self.member.stats.feed_ends.add(self.feed.name());
        let (first, longest) = self.timing.discard_pause;
        let mut discards = Discards::new(first, longest);
        let mut asked = None::<Instant>;
        loop {
            match self.feed.lead(self.timing.lease).await {
                Ok(true) => self.lead(&mut discards).await,
                Ok(false) if asked.is_none_or(|at| at.elapsed() >= self.timing.note_every) => {
                    asked = Some(Instant::now());
                    if self.feed.is_end_noted().await == Ok(true) {
                        self.member.stats.feed_ends.reached(self.feed.name());
                    }
                }
                Ok(false) | Err(_) => {}
            }
            sleep(self.timing.try_every.mul_f64(0.5 + 0.5 * self.member.random.unit())).await;
        }
    }

    /// Reads until another node may lead: it may reach the server that this node does not reach.
    async fn lead(&self, discards: &mut Discards) {
        self.member.recent.remember(true);
        let end = loop {
            match self.read_as_leader(discards).await {
                // It keeps the lead, and with it the pauses between discards.
                Ok(ReadEnd::Epoch) if self.feed.lead(self.timing.lease).await == Ok(true) => {}
                end => break end,
            }
        };
        if let Err(error) = end {
            tracing::debug!(feed = self.feed.name(), ?error, "stopped reading the change feed");
        }
        self.member.recent.remember(false);
        self.feed.yield_lead().await;
    }

    /// Reads until the lead is lost, the store does not answer, or a change cannot be published.
    async fn read_as_leader(&self, discards: &mut Discards) -> Result<ReadEnd, FeedError> {
        let epoch = self.member.node.epoch();
        let mut changes = match self.feed.open(false).await {
            Err(FeedError::Lost) => None,
            opened => Some(opened?),
        };
        let (mut extended, mut saved, mut noted) = (Instant::now(), Instant::now(), None::<Instant>);
        loop {
            let batch = match &mut changes {
                Some(open) => open.next(self.timing.try_every).await,
                None => Err(FeedError::Lost),
            };
            if matches!(batch, Err(FeedError::Lost)) {
                if changes.is_some() {
                    tracing::warn!(
                        feed = self.feed.name(),
                        "changes of the store were lost, as after a collection was dropped or restored"
                    );
                }
                changes = self.begin_again(discards).await?;
                if changes.is_none() {
                    return Ok(ReadEnd::Lead);
                }
                continue;
            }
            let (batch, Some(open)) = (batch?, &mut changes) else { return Ok(ReadEnd::Lead) };
            if !self.publish(epoch, batch).await && rules::feed_left() {
                return Ok(ReadEnd::Lead);
            }
            if self.member.node.epoch() != epoch {
                return Ok(ReadEnd::Epoch);
            }
            if open.is_at_end() {
                self.note_end(&mut noted).await?;
            }
            if saved.elapsed() >= self.timing.save_every {
                saved = Instant::now();
                if !open.save().await? {
                    return Ok(ReadEnd::Lead);
                }
            }
            if extended.elapsed() >= self.timing.try_every {
                extended = Instant::now();
                if !self.feed.lead(self.timing.lease).await? {
                    return Ok(ReadEnd::Lead);
                }
            }
        }
    }

    async fn note_end(&self, noted: &mut Option<Instant>) -> Result<(), FeedError> {
        self.member.stats.feed_ends.reached(self.feed.name());
        if noted.is_none_or(|at| at.elapsed() >= self.timing.note_every) {
            *noted = Some(Instant::now());
            self.feed.note_end(self.timing.note_lasts).await?;
        }
        Ok(())
    }

    /// Opens the feed at its end after its position was lost, and then discards all copies. In this order no change is
    /// missed in between. Saves the new position before the lead can be given up: the next leader would otherwise read up
    /// to the same loss again. `None`: the lead was lost.
    async fn begin_again(&self, discards: &mut Discards) -> Result<Option<Box<dyn Changes>>, FeedError> {
        if self.leading(sleep(discards.pause())).await?.is_none() {
            return Ok(None);
        }
        let Some(restored) = self.leading(self.feed.restore()).await? else { return Ok(None) };
        restored?;
        let mut changes = self.feed.open(true).await?;
        tracing::info!(
            feed = self.feed.name(),
            "the change feed is read from its end: all copies are discarded"
        );
        self.member.bus.discard_copies().await.map_err(|_| FeedError::Unavailable)?;
        discards.count();
        Ok(changes.save().await?.then_some(changes))
    }

    /// Keeps the lead while it waits for work. `None`: the lead was lost.
    async fn leading<T: Send>(&self, work: impl Future<Output = T> + Send) -> Result<Option<T>, FeedError> {
        let mut work = std::pin::pin!(work);
        loop {
            match timeout(self.timing.try_every, &mut work).await {
                Ok(done) => return Ok(Some(done)),
                Err(_) if self.feed.lead(self.timing.lease).await? => {}
                Err(_) => return Ok(None),
            }
        }
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
