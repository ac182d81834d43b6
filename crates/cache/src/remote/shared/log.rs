//! The contract for the log through which nodes learn about changes: append and publish, replay, subscribe,
//! confirm.

use std::fmt;

use crate::Version;

use super::{Cell, Frame, PeerPosition, SharedError};

/// The log of changes, and the channel on which its entries are published as they are appended.
#[async_trait::async_trait]
pub trait Log: fmt::Debug + Send + Sync + 'static {
    /// Changes cells, appends the entry, and publishes it on the epoch's channel: one step. If it is sent
    /// again while its entry is the last entry, there is still only one; later it is appended once more under
    /// the same name.
    ///
    /// # Errors
    /// If the server does not answer, does not accept writes, or is not the accepted server.
    async fn change(
        &self,
        epoch: u64,
        writes: &[(String, CellWrite)],
        entry: LogEntry<'_>,
    ) -> Result<ChangeAnswer, SharedError>;

    /// The entries of the log from this number on, including it, at most so many.
    ///
    /// # Errors
    /// When the server does not answer.
    async fn replay(&self, epoch: u64, from: u64, most: usize) -> Result<Vec<Frame>, SharedError>;

    /// Subscribes to what is published to this node in the epoch. When it returns, everything published
    /// afterwards is received or known to be lost.
    ///
    /// # Errors
    /// If the server does not answer.
    async fn subscribe(&self, epoch: u64, node: u64) -> Result<Box<dyn Frames>, SharedError>;

    /// Confirms to the nodes `to` that this node has applied all entries up to a number, and writes it into
    /// the registry: one step for all nodes.
    ///
    /// # Errors
    /// If the server does not answer or does not accept writes.
    async fn confirm(&self, epoch: u64, to: &[u64], confirmed: Confirmation) -> Result<(), SharedError>;
}

/// A subscription.
#[async_trait::async_trait]
pub trait Frames: fmt::Debug + Send {
    /// The next news. `None`: some may have been lost; a new subscription is needed.
    async fn next(&mut self) -> Option<News>;
}

/// A message that a subscriber receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// An entry of the log, as bytes: see [`Frame::from_bytes`]. Any program may have sent it.
    Entry(Vec<u8>),
    /// The lease under this address, for which a reader waits, has ended.
    LeaseEnded(String),
    /// A node has applied what it was asked to confirm.
    Confirmed(Confirmation),
}

/// The position of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// The node that confirms.
    pub node: u64,
    /// All entries up to this one are applied there.
    pub number: u64,
}

/// The change that a write makes to a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellWrite {
    /// See [`Cell::invalidate`].
    Invalidate(Option<Version>),
    /// See [`Cell::put`].
    Put(Cell),
}

/// The entry that a change adds to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// Random; the name of the entry, which its successor contains.
    pub nonce: u64,
    /// The authenticated bytes that the nodes receive; see [`Message`](super::Message).
    pub message: &'a [u8],
    /// The answer must list the registered nodes.
    pub strict: bool,
}

/// The answer to a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeAnswer {
    /// The entry's number in its epoch's log.
    pub number: u64,
    /// The highest epoch known to the server. If it is higher than that of the change, nodes already follow
    /// another log, and the change has to be published there.
    pub epoch: u64,
    /// The nodes registered in the epoch of the change when it was made; empty unless asked for.
    pub peers: Vec<PeerPosition>,
}
