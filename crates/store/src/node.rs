use std::{fmt, time::Duration};

use async_trait::async_trait;

use crate::{IdBlock, IdKind, StoreError, Timestamp};

/// What a node keeps in the store for itself and for its peers.
#[async_trait]
pub trait NodeStore: Send + Sync + fmt::Debug + 'static {
    /// Name of the backend, for people: `sqlite`, `cluster`.
    fn backend(&self) -> &'static str;

    /// Answers when the store can be read and, where that can be seen without writing, written.
    ///
    /// # Errors
    /// When it does not answer within `limit`.
    async fn ping(&self, limit: Duration) -> Result<(), StoreError>;

    /// Gives out `count` ids that were never given out, above all earlier ones and not below
    /// [`IdKind::FIRST_ALLOCATED`]. Durable before it returns: a crash loses ids, never repeats them.
    ///
    /// # Errors
    /// When the store cannot answer; ids may be lost then.
    async fn allocate_ids(&self, kind: IdKind, count: u32) -> Result<IdBlock, StoreError>;

    /// The epoch: 0 and of no server at first, raised by [`Self::raise_epoch`] alone.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn epoch(&self) -> Result<Epoch, StoreError>;

    /// Raises the epoch to `seen + 1`, for this server, if its number is still `seen`, whatever its server was. Returns
    /// the epoch afterwards, whichever node raised it. One step.
    ///
    /// # Errors
    /// If the store cannot answer, the epoch may have been raised.
    async fn raise_epoch(&self, seen: u64, server: &str) -> Result<Epoch, StoreError>;

    /// The key of this name, which all nodes share: `candidate` becomes it if there is none yet.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn key(&self, name: &str, candidate: [u8; 32]) -> Result<[u8; 32], StoreError>;

    /// Forgets requests older than [`REQUEST_KEPT`](crate::REQUEST_KEPT), at most a bounded number a call.
    /// Returns how many were forgotten; a store that forgets by itself returns 0.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn forget_requests(&self, now: Timestamp) -> Result<u64, StoreError>;
}

/// A time in which nodes share copies. What was shared in an earlier one counts no more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// Only ever rises.
    pub number: u64,
    /// The server on which nodes share copies, as set by the node that raised the epoch; empty: none.
    pub server: String,
}
