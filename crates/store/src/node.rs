//! Node data: ids, epoch and keys.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use crate::{IdBlock, IdKind, StoreError, Timestamp};

/// The data that a node stores for itself and for its peers.
#[async_trait]
pub trait NodeStore: Send + Sync + fmt::Debug + 'static {
    /// The backend's name, for display: `sqlite`, `cluster`.
    fn backend(&self) -> &'static str;

    /// Succeeds if the store can be read and, as far as that is known without a write, written.
    ///
    /// # Errors
    /// If it does not answer within `limit`.
    async fn ping(&self, limit: Duration) -> Result<(), StoreError>;

    /// Reads the store's clock. `None`: the store has no clock besides this machine's.
    ///
    /// # Errors
    /// If it does not answer within `limit`.
    async fn clock(&self, limit: Duration) -> Result<Option<Timestamp>, StoreError>;

    /// Allocates `count` new ids, above all earlier ids and not below [`IdKind::FIRST_ALLOCATED`]. Durable
    /// before it returns: a crash may lose ids, but never repeats them.
    ///
    /// # Errors
    /// If the store cannot answer; ids may be lost then.
    async fn allocate_ids(&self, kind: IdKind, count: u32) -> Result<IdBlock, StoreError>;

    /// The epoch. At first 0 and without a server; only [`Self::raise_epoch`] raises it.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn epoch(&self) -> Result<Epoch, StoreError>;

    /// Raises the epoch to `seen + 1`, for this server, if its number is still `seen`. Returns the resulting
    /// epoch, also if another node raised it. One atomic step.
    ///
    /// # Errors
    /// If the store cannot answer, the epoch may have been raised.
    async fn raise_epoch(&self, seen: u64, server: &str) -> Result<Epoch, StoreError>;

    /// Returns the key with this name, which all nodes share: `candidate` becomes it if there is none yet.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn key(&self, name: &str, candidate: [u8; 32]) -> Result<[u8; 32], StoreError>;

    /// Deletes requests older than [`REQUEST_KEPT`](crate::REQUEST_KEPT), a bounded number in each call.
    /// Returns how many were deleted; 0 in a store with expiry.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn forget_requests(&self, now: Timestamp) -> Result<u64, StoreError>;
}

/// A period in which nodes share copies. Copies from an earlier epoch are invalid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// The epoch's number; never falls.
    pub number: u64,
    /// The server on which nodes share copies, as set by the node that raised the epoch; empty: none.
    pub server: String,
}
