//! Reads the store's change feed. It publishes the changes of writers that died between commit and broadcast,
//! and the changes that other programs made in the store (ADR 0012, ADR 0063).

use std::{future::Future, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};

use super::{Changes, ClusterNode, Feed, FeedError, FeedTiming, delay_line::DelayLine, discards::Discards};
use crate::{Invalidation, testing::rules};

/// Only for test builds without the rule: how late changes are published.
const LATE: Duration = Duration::from_secs(30);

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
    /// The nodes moved to another epoch. Changes that were published in the log before may be lost with it:
    /// they are read again, by the same node.
    Epoch,
    /// Another node leads, or a change cannot be published.
    Lead,
}

impl FeedReader {
    /// Reads, or waits for the lead, until it is dropped. Then its lead expires.
    pub async fn read(&self) {
        self.member.stats.feeds.add(self.feed.name());
        let (first, longest) = self.timing.discard_pause;
        let mut discards = Discards::new(first, longest);
        let mut asked = None::<Instant>;
        loop {
            let led = self.feed.lead(self.timing.lease).await;
            match led {
                Ok(true) => self.lead(&mut discards).await,
                Ok(false) if asked.is_none_or(|at| at.elapsed() >= self.timing.note_every) => {
                    asked = Some(Instant::now());
                    if self.feed.is_end_noted().await == Ok(true) {
                        self.member.stats.feeds.reached(self.feed.name());
                    }
                }
                Ok(false) | Err(_) => {}
            }
            let shortest = if led == Ok(true) { 1.0 } else { 0.5 };
            sleep(self.timing.try_every.mul_f64(shortest + 0.5 * self.member.random.unit())).await;
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
        self.member.stats.feeds.waits_since(self.feed.name(), None);
        self.feed.yield_lead().await;
    }

    /// Reads until the lead is lost, the store does not answer, or a change cannot be published.
    async fn read_as_leader(&self, discards: &mut Discards) -> Result<ReadEnd, FeedError> {
        let mut opened = match self.feed.open(false).await {
            Err(FeedError::Lost) => self.begin_again(discards).await?,
            opened => Some(opened?),
        };
        while let Some(changes) = opened {
            match Reading::new(self, changes).read().await {
                Err(FeedError::Lost) => {
                    tracing::warn!(
                        feed = self.feed.name(),
                        "changes of the store were lost, as after a collection was dropped or restored"
                    );
                    opened = self.begin_again(discards).await?;
                }
                end => return end,
            }
        }
        Ok(ReadEnd::Lead)
    }

    /// Opens the feed at its end after its position was lost, and then discards all copies. In this order no
    /// change is missed in between. Saves the new position before the lead can be given up: the next leader
    /// would otherwise read up to the same loss again. `None`: the lead was lost.
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
        let begun = changes.position().mark;
        Ok(changes.save(&begun).await?.then_some(changes))
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

    /// Publishes the changes that their writers have not published by now. False: a change could not be
    /// published.
    async fn publish(&self, epoch: u64, changes: &[Invalidation]) -> bool {
        if changes.is_empty() || !rules::feed_publishes() {
            return true;
        }
        let ClusterNode { bus, node, stats, .. } = &self.member;
        let missing: Vec<Invalidation> =
            changes.iter().filter(|change| self.is_missing(epoch, change)).cloned().collect();
        stats.fed.add(u64::try_from(missing.len()).unwrap_or(u64::MAX));
        if bus.publish_now(node, &missing).await.is_err() {
            return false;
        }
        let Ok(further) = self.feed.dependent_changes(&missing).await else { return false };
        bus.publish_now(node, &further).await.is_ok()
    }

    /// Whether no writer has published a change. Must be called in the order of the changes: after a change
    /// without a version, such as a document's removal by hand, the same version may occur again with another
    /// state.
    fn is_missing(&self, epoch: u64, change: &Invalidation) -> bool {
        let recent = &self.member.recent;
        match change.version {
            Some(version) => !recent.knows(epoch, change.namespace, &change.key, version),
            None => {
                recent.forget(change.namespace, &change.key);
                true
            }
        }
    }
}

/// An open feed, as a leader reads it: batches are taken while earlier ones wait for the grace.
#[derive(Debug)]
struct Reading<'a> {
    reader: &'a FeedReader,
    changes: Box<dyn Changes>,
    /// The epoch in which the changes are published.
    epoch: u64,
    line: DelayLine,
    /// The mark after the last published batch, until it is saved.
    published: Option<Vec<u8>>,
    /// Whether the mark passes a published change.
    has_published: bool,
    extended: Instant,
    saved: Instant,
    noted: Option<Instant>,
}

impl<'a> Reading<'a> {
    fn new(reader: &'a FeedReader, changes: Box<dyn Changes>) -> Self {
        Self {
            reader,
            changes,
            epoch: reader.member.node.epoch(),
            line: DelayLine::new(if rules::feed_prompt() { reader.timing.grace } else { LATE }),
            published: None,
            has_published: false,
            extended: Instant::now(),
            saved: Instant::now(),
            noted: None,
        }
    }

    /// Reads until the lead or the epoch is lost, the feed ends, or a change cannot be published.
    async fn read(mut self) -> Result<ReadEnd, FeedError> {
        loop {
            if let Err(error) = self.read_next().await {
                self.publish_all().await?;
                return Err(error);
            }
            if !self.publish_due().await? && rules::feed_left() {
                return Ok(ReadEnd::Lead);
            }
            if self.reader.member.node.epoch() != self.epoch {
                return Ok(ReadEnd::Epoch);
            }
            if !self.save().await? || !self.extend().await? {
                return Ok(ReadEnd::Lead);
            }
        }
    }

    /// Reads a batch, or waits until the oldest batch is due.
    async fn read_next(&mut self) -> Result<(), FeedError> {
        let patience = self.reader.timing.patience;
        let patience = self.line.until_due().map_or(patience, |due| due.min(patience));
        if self.line.is_full() {
            sleep(patience).await;
            return Ok(());
        }
        let changes = self.changes.next(patience).await?;
        self.line.push(changes, self.changes.position());
        self.report();
        Ok(())
    }

    /// Publishes the oldest batches that are due, as far as their writers have not. False: a change could not
    /// be published.
    async fn publish_due(&mut self) -> Result<bool, FeedError> {
        let Some((changes, position)) = self.line.take_due() else { return Ok(true) };
        let is_published = self.reader.publish(self.epoch, &changes).await;
        if is_published || !rules::feed_left() {
            self.has_published |= !changes.is_empty();
            self.published = Some(position.mark);
            self.report();
        }
        if is_published && position.is_at_end {
            self.note_end().await?;
        }
        Ok(is_published)
    }

    /// Publishes what waits after the feed has ended: all copies are discarded only after a pause.
    async fn publish_all(&mut self) -> Result<(), FeedError> {
        while let Some(due) = self.line.until_due() {
            sleep(due).await;
            if !self.publish_due().await? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn report(&self) {
        let reader = self.reader;
        reader.member.stats.feeds.waits_since(reader.feed.name(), self.line.oldest());
    }

    async fn note_end(&mut self) -> Result<(), FeedError> {
        let FeedReader { member, feed, timing } = self.reader;
        member.stats.feeds.reached(feed.name());
        if self.noted.is_none_or(|at| at.elapsed() >= timing.note_every) {
            self.noted = Some(Instant::now());
            feed.note_end(timing.note_lasts).await?;
        }
        Ok(())
    }

    /// Saves the position after what is published, if it is time to. False: another node leads.
    async fn save(&mut self) -> Result<bool, FeedError> {
        let timing = self.reader.timing;
        let pause = if self.has_published { timing.save_every } else { timing.save_idle_every };
        if self.saved.elapsed() < pause {
            return Ok(true);
        }
        let Some(mark) = self.published.take() else { return Ok(true) };
        (self.saved, self.has_published) = (Instant::now(), false);
        self.changes.save(&mark).await
    }

    /// Extends the lead, if it is time to. False: another node leads.
    async fn extend(&mut self) -> Result<bool, FeedError> {
        if self.extended.elapsed() < self.reader.timing.try_every {
            return Ok(true);
        }
        self.extended = Instant::now();
        self.reader.feed.lead(self.reader.timing.lease).await
    }
}
