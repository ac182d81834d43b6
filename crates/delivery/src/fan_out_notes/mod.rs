//! Notes about unfinished fan-outs. If a node dies before it has entered its messages into their recipients'
//! inboxes, another node finds its note and does it.

#[cfg(feature = "redis")]
mod redis;

use std::{fmt, time::Duration};

use async_trait::async_trait;
use kith_cache::remote::SharedError;
use kith_store::{DueNote, FanOutNote};

#[cfg(feature = "redis")]
pub use redis::RedisFanOutNotes;

/// The storage for all nodes' notes. A call may have several steps, and is not atomic. Notes do not expire.
#[async_trait]
pub trait FanOutNotes: Send + Sync + fmt::Debug + 'static {
    /// Writes step notes, at most 1,000. May be repeated. Costs one round trip and one script, in a Redis
    /// Cluster one script for each of 16 conversation parts.
    ///
    /// # Errors
    /// If the epoch's server does not answer. Some may be stored.
    async fn begin(&self, notes: &[FanOutNote]) -> Result<(), SharedError>;

    /// Removes notes; missing ones are ignored. Costs as much as [`begin`](Self::begin).
    ///
    /// # Errors
    /// If the epoch's server does not answer. Some may be removed.
    async fn end(&self, notes: &[FanOutNote]) -> Result<(), SharedError>;

    /// Returns notes that are older than `age`, for each part of the conversations the oldest first, at most
    /// `most` in each part.
    ///
    /// # Errors
    /// If the epoch's server does not answer.
    async fn due(&self, age: Duration, most: usize) -> Result<Vec<DueNote>, SharedError>;
}
