//! The change feed of the store, as its reader sees it, and the times by which it is read.

use std::time::{Duration, SystemTime};

use crate::Invalidation;

/// The change feed of a store, which one node at a time reads.
#[async_trait::async_trait]
pub trait Feed: std::fmt::Debug + Send + Sync + 'static {
    /// Its name, in metrics and in the log.
    fn name(&self) -> &str;

    /// Takes the lead, which is a lease of the right to read the feed, or extends it. False: another node has
    /// it.
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

    /// Restores what the store may have lost together with the changes, such as the indexes of a dropped
    /// collection. Is called before the feed is opened at its end because changes were lost. By default there
    /// is nothing to restore.
    ///
    /// # Errors
    /// If the store does not answer, or cannot restore it.
    async fn restore(&self) -> Result<(), FeedError> {
        Ok(())
    }

    /// Notes for the other nodes that this node, which leads, has read the feed to its end. The note expires
    /// after this time.
    ///
    /// # Errors
    /// If the store does not answer.
    async fn note_end(&self, lasts: Duration) -> Result<(), FeedError>;

    /// Whether there is a note of the node that leads, and it has not expired.
    ///
    /// # Errors
    /// If the store does not answer.
    async fn is_end_noted(&self) -> Result<bool, FeedError>;

    /// Further changes that must be published after these, for example of lists that may now contain the
    /// records. None by default.
    ///
    /// # Errors
    /// If the store does not answer. All changes are then read again.
    async fn dependent_changes(&self, _changes: &[Invalidation]) -> Result<Vec<Invalidation>, FeedError> {
        Ok(Vec::new())
    }
}

/// An open feed that returns changes.
#[async_trait::async_trait]
pub trait Changes: std::fmt::Debug + Send {
    /// The next changes, in the order of the store. Empty if there are none for this long.
    ///
    /// # Errors
    /// If the store does not answer, or the feed ended. [`FeedError::Lost`] if the changes that follow are
    /// not available, as after a collection was dropped.
    async fn next(&mut self, patience: Duration) -> Result<Vec<Invalidation>, FeedError>;

    /// The position after the changes that were returned last, or at which the feed was opened.
    fn position(&self) -> FeedPosition;

    /// Saves the mark of a position up to which all changes are published. False: another node leads.
    ///
    /// # Errors
    /// If the store does not answer.
    async fn save(&mut self, mark: &[u8]) -> Result<bool, FeedError>;
}

/// A position of an open feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedPosition {
    /// The feed can be opened again at this mark.
    pub mark: Vec<u8>,
    /// Whether no changes follow, as far as is known.
    pub is_at_end: bool,
    /// When the oldest change in the last answer was written, by the store's or the writer's clock. `None`:
    /// the answer was empty, or the time is unknown.
    pub written: Option<SystemTime>,
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
    /// Time between two extensions of the lead, and the longest time between two attempts to lead. A reader
    /// that gave up the lead waits for longer than the others, so that another reader takes it.
    pub try_every: Duration,
    /// How long to wait for a change before the reader looks after its lead.
    pub patience: Duration,
    /// How long to wait for the writer's own publication before a change is published for it.
    pub grace: Duration,
    /// Time between two saves while changes are published.
    pub save_every: Duration,
    /// Time between two saves while there are no changes: the next leader reads as much of the feed again, in
    /// which there is nothing to publish.
    pub save_idle_every: Duration,
    /// Time between two notes that the feed was read to its end, and between two reads of such a note.
    pub note_every: Duration,
    /// How long such a note lasts.
    pub note_lasts: Duration,
    /// The first and the longest pause between two position losses that discard all copies. It doubles while
    /// positions are lost repeatedly, as when collections are restored in turn.
    pub discard_pause: (Duration, Duration),
}

impl Default for FeedTiming {
    /// A 6 s lease, tried for every 2 s by what is known for up to 1 s, a 250 ms grace: together with about a
    /// second for reading, at most 11 s. Notes: each 2 s, for 5 s. Pauses from 1 s to 1 min.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(6),
            try_every: Duration::from_secs(2),
            patience: Duration::from_secs(1),
            grace: Duration::from_millis(250),
            save_every: Duration::from_secs(1),
            save_idle_every: Duration::from_secs(10),
            note_every: Duration::from_secs(2),
            note_lasts: Duration::from_secs(5),
            discard_pause: (Duration::from_secs(1), Duration::from_secs(60)),
        }
    }
}
