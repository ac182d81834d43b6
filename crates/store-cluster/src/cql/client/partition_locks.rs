//! Locks of partitions within this node.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use tokio::sync::{Mutex, OwnedMutexGuard};

const QUEUES: usize = 1024;

/// Serialises conditional writes of one partition: concurrent ones of one node would only refuse each other. Partitions
/// that share a queue wait for each other, too.
#[derive(Debug)]
pub(in crate::cql) struct PartitionLocks {
    queues: Vec<Arc<Mutex<()>>>,
    hasher: RandomState,
}

impl PartitionLocks {
    /// Waits for earlier writers. Their number is bounded by the limit of calls.
    pub(in crate::cql) async fn of(&self, partition: i64) -> OwnedMutexGuard<()> {
        self.queue(partition).lock_owned().await
    }

    /// The same if no other task waits; else `None`.
    pub(in crate::cql) fn at_once(&self, partition: i64) -> Option<OwnedMutexGuard<()>> {
        self.queue(partition).try_lock_owned().ok()
    }

    fn queue(&self, partition: i64) -> Arc<Mutex<()>> {
        let queue = usize::try_from(self.hasher.hash_one(partition) % QUEUES as u64).unwrap_or_default();
        Arc::clone(&self.queues[queue])
    }
}

impl Default for PartitionLocks {
    fn default() -> Self {
        let queues = (0..QUEUES).map(|_| Arc::default()).collect();
        Self { queues, hasher: RandomState::new() }
    }
}
