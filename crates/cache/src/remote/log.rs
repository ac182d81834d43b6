use std::fmt;

use crate::Version;

use super::{Cell, Frame, Peer, SharedError};

/// The log of changes, and the channel on which its entries are told as they come.
#[async_trait::async_trait]
pub trait Log: fmt::Debug + Send + Sync + 'static {
    /// Changes cells, appends the entry, and tells it on the channel of the epoch: one step. Sent again while its
    /// entry is the last one, it stays one; later it is appended once more under the same name.
    ///
    /// # Errors
    /// When the server does not answer, does not take writes, or is not the one that was accepted.
    async fn change(
        &self,
        epoch: u64,
        orders: &[(String, Order)],
        entry: Entry<'_>,
    ) -> Result<Changed, SharedError>;

    /// The entries of the log from this number on, that one included, at most so many.
    ///
    /// # Errors
    /// When the server does not answer.
    async fn replay(&self, epoch: u64, from: u64, most: usize) -> Result<Vec<Frame>, SharedError>;

    /// Listens to what is told to this node in the epoch. When it returns, everything told afterwards is heard
    /// or known as lost.
    ///
    /// # Errors
    /// When the server does not answer.
    async fn subscribe(&self, epoch: u64, node: u64) -> Result<Box<dyn Frames>, SharedError>;

    /// Tells the node `to` that this one has applied all up to a number, and writes it into the registry.
    ///
    /// # Errors
    /// When the server does not answer or does not take writes.
    async fn confirm(&self, epoch: u64, to: u64, confirmed: Confirmed) -> Result<(), SharedError>;
}

/// What is heard by a subscriber.
#[async_trait::async_trait]
pub trait Frames: fmt::Debug + Send {
    /// The next news. `None`: some may have been lost; a new subscription is needed.
    async fn next(&mut self) -> Option<News>;
}

/// What a subscriber is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// An entry of the log, as bytes: see [`Frame::heard`]. Anybody may have sent it.
    Entry(Vec<u8>),
    /// The lease that somebody waits for under this address has ended.
    Filled(String),
    /// A node has applied what it was asked to confirm.
    Confirmed(Confirmed),
}

/// How far a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// Which node.
    pub node: u64,
    /// All entries up to this one are applied there.
    pub number: u64,
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
    /// What the nodes are told, sealed; see [`Message`](super::Message).
    pub message: &'a [u8],
    /// The answer is to tell which nodes there are.
    pub strict: bool,
}

/// The answer to a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Number of the entry in the log of its epoch.
    pub number: u64,
    /// The highest epoch that the server was told of. A higher one than that of the change: nodes follow
    /// another log already, and have to be told there.
    pub epoch: u64,
    /// The nodes registered in the epoch of the change when it was made; empty unless asked for.
    pub peers: Vec<Peer>,
}
