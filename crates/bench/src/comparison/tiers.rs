use std::{sync::Arc, time::Duration};

use anyhow::Result;
use kith_cache::{LoadOptions, Loader as _};
use moka::sync::Cache;

use super::server::{AbortOnDrop, Server, subscribe};
use crate::cache_node::Store;

/// How long a copy stays in memory: as long as Kith's.
const MEMORY_TTL: Duration = Duration::from_secs(60);
const MEMORY_MAX: u64 = 100_000;

/// A node's tiers in each scheme: memory, Redis and the store. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Tiers {
    pub(super) memory: Cache<u64, u64>,
    pub(super) server: Server,
    pub(super) store: Store,
    _subscription: Arc<AbortOnDrop>,
}

impl Tiers {
    /// Connects to the Redis at this address. Copies in memory are dropped when their change is received.
    pub(super) async fn connect(url: &str, store: &Store) -> Result<Self> {
        let memory = Cache::builder().max_capacity(MEMORY_MAX).time_to_live(MEMORY_TTL).build();
        let dropped: Cache<u64, u64> = memory.clone();
        let subscription = subscribe(url, move |key| dropped.invalidate(&key)).await?;
        let server = Server::connect(url).await?;
        Ok(Self { memory, server, store: store.clone(), _subscription: Arc::new(AbortOnDrop(subscription)) })
    }

    /// The version in Redis, else the version in the store, which is then put into Redis. A Redis that does
    /// not answer counts as empty.
    pub(super) async fn below(&self, key: u64) -> Result<u64> {
        if let Ok(Some(version)) = self.server.get(key).await {
            return Ok(version);
        }
        let version = self.stored(key).await?;
        // A cache that cannot be filled fails no read.
        drop(self.server.set(key, version).await);
        Ok(version)
    }

    /// The version in the store.
    pub(super) async fn stored(&self, key: u64) -> Result<u64> {
        Ok(self.store.load(&key, LoadOptions::default()).await?.version().get())
    }

    /// Commits a version, deletes the copy in Redis and publishes the change. A Redis failure is ignored.
    pub(super) async fn write(&self, key: u64) -> u64 {
        let version = self.store.commit(key);
        drop(self.server.delete(key).await);
        self.publish(key, version).await;
        version
    }

    /// Does what follows the deletion in Redis: drops the own copy, notifies the others, acknowledges the
    /// write. A Redis failure is ignored and fails no committed write.
    pub(super) async fn publish(&self, key: u64, version: u64) {
        self.memory.invalidate(&key);
        drop(self.server.publish(key).await);
        self.store.acknowledge(key, version);
    }
}
