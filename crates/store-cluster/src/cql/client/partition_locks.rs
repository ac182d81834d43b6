//! Partition locks within this node.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use tokio::sync::{Mutex, OwnedMutexGuard};

const LOCKS: usize = 1024;

/// Serialises this node's conditional writes to a partition, because concurrent writes would only refuse each
/// other. Partitions that share a lock also wait for each other.
#[derive(Debug)]
pub(in crate::cql) struct PartitionLocks {
    locks: Vec<Arc<Mutex<()>>>,
    hasher: RandomState,
}

impl PartitionLocks {
    /// Locks a partition, after the writers that already wait. The limit on calls bounds their number.
    pub(in crate::cql) async fn lock(&self, partition: i64) -> OwnedMutexGuard<()> {
        self.mutex(partition).lock_owned().await
    }

    /// Locks a partition if it is free, else returns `None`.
    pub(in crate::cql) fn try_lock(&self, partition: i64) -> Option<OwnedMutexGuard<()>> {
        self.mutex(partition).try_lock_owned().ok()
    }

    fn mutex(&self, partition: i64) -> Arc<Mutex<()>> {
        let index = usize::try_from(self.hasher.hash_one(partition) % LOCKS as u64).unwrap_or_default();
        Arc::clone(&self.locks[index])
    }
}

impl Default for PartitionLocks {
    fn default() -> Self {
        let locks = (0..LOCKS).map(|_| Arc::default()).collect();
        Self { locks, hasher: RandomState::new() }
    }
}
