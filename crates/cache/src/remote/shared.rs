//! The server that nodes share, as far as the protocol asks of it.

use std::{fmt, sync::Arc, time::Duration};

use crate::Version;

use super::{Acquired, Cell, Filled, Frame, Queue};

/// The server that nodes share: cells, the log, and the channel. Every call is one step that nothing comes
/// between, and idempotent: it may be sent again when its answer was lost.
///
/// A call that takes longer than its bound fails; it may have been done, or may be yet.
#[async_trait::async_trait]
pub trait Shared: fmt::Debug + Send + Sync + 'static {
    /// The cells under these keys, in their order.
    ///
    /// # Errors
    /// When the server does not answer.
    async fn read(&self, keys: &[String]) -> Result<Vec<Option<Cell>>, SharedError>;

    /// See [`Cell::acquire`]; in the order of the keys, each by itself.
    ///
    /// # Errors
    /// When the server does not answer; leases may be taken, and run out.
    async fn acquire(&self, keys: &[String], token: u64) -> Result<Vec<Acquired>, SharedError>;

    /// See [`Cell::fill`]; in the order given, each by itself.
    ///
    /// # Errors
    /// When the server does not answer.
    async fn fill(&self, cells: &[(String, Cell)]) -> Result<Vec<Filled>, SharedError>;

    /// See [`Cell::release`].
    ///
    /// # Errors
    /// When the server does not answer; the leases run out by themselves.
    async fn release(&self, keys: &[String], token: u64) -> Result<(), SharedError>;

    /// Changes cells, logs the message and tells it on the channel of the epoch: one step.
    ///
    /// # Errors
    /// When the server does not answer.
    async fn change(
        &self,
        epoch: u64,
        orders: &[(String, Order)],
        entry: Entry<'_>,
    ) -> Result<Changed, SharedError>;

    /// Writes that the node lives and of which epoch it is, so that it fails where changes would, and returns
    /// how far the log is.
    ///
    /// # Errors
    /// When the server does not answer or does not take writes.
    async fn probe(&self, epoch: u64, node: u64) -> Result<Probed, SharedError>;

    /// The entries of the log from this number on, that one included, at most so many.
    ///
    /// # Errors
    /// When the server does not answer.
    async fn replay(&self, epoch: u64, from: u64, most: usize) -> Result<Vec<Frame>, SharedError>;

    /// Listens to the channel of the epoch. When it returns, everything told afterwards is heard or known as
    /// lost.
    ///
    /// # Errors
    /// When the server does not answer.
    async fn subscribe(&self, epoch: u64) -> Result<Box<dyn Frames>, SharedError>;
}

/// What the namespaces of one node share the server by.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// The server.
    pub shared: Arc<dyn Shared>,
    /// What it could not be told of yet.
    pub queue: Arc<Queue>,
    /// How long a load waits for another's before it asks the store itself.
    pub patience: Duration,
}

/// What is heard on a channel.
#[async_trait::async_trait]
pub trait Frames: fmt::Debug + Send {
    /// The next frame. `None`: some may have been lost; a new subscription is needed.
    async fn next(&mut self) -> Option<Vec<u8>>;
}

/// What a write does to a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// See [`Cell::invalidate`].
    Invalidate(Option<Version>),
    /// See [`Cell::put`].
    Put(Cell),
}

/// What a change adds to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Random; names the entry, and its successor names it.
    pub nonce: u64,
    /// What the nodes are told, see [`message`](super::message).
    pub message: &'a [u8],
}

/// The answer to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Number of the entry in the log of its epoch.
    pub number: u64,
    /// The highest epoch that the server was told of. A higher one than that of the change: nodes follow
    /// another log already, and have to be told there.
    pub epoch: u64,
}

/// The answer to a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// Number of the last entry of the log; 0 when it is empty.
    pub number: u64,
    /// Its nonce; 0 when it is empty.
    pub nonce: u64,
    /// The highest epoch that the server was told of.
    pub epoch: u64,
    /// Who answered: another server, or the same one started anew, says something else.
    pub server: String,
}

/// How long each kind of cell is kept, and how much of the log.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Records, and the knowledge that they do not live.
    pub copies: Duration,
    /// Leases; longer than a load may take.
    pub leases: Duration,
    /// Tombs; longer than anything that was read before can take to come.
    pub tombs: Duration,
    /// About how many entries the log keeps.
    pub log_max: u32,
}

impl Default for Kept {
    /// 10 min, 3 s, 30 s, 100,000.
    fn default() -> Self {
        Self {
            copies: Duration::from_secs(600),
            leases: Duration::from_secs(3),
            tombs: Duration::from_secs(30),
            log_max: 100_000,
        }
    }
}

/// Why the server gave no answer. Whether it did what was asked is not known, but for [`SharedError::Refused`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharedError {
    /// There is no connection, or it broke.
    #[error("the shared server is away")]
    Away,
    /// No answer came in time.
    #[error("the shared server did not answer in time")]
    Timeout,
    /// It answered that it does not do this now: full, read-only, loading.
    #[error("the shared server takes no writes")]
    Refused,
    /// It answered something else than it should.
    #[error("the shared server answered what it never should")]
    Unexpected,
}
