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

    /// The epoch: 0 at first, raised by [`Self::raise_epoch`] alone.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn epoch(&self) -> Result<u64, StoreError>;

    /// Raises the epoch to `seen + 1` if it still is `seen`. Returns the epoch afterwards, whoever raised it.
    ///
    /// # Errors
    /// When the store cannot answer; the epoch may have been raised.
    async fn raise_epoch(&self, seen: u64) -> Result<u64, StoreError>;

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
