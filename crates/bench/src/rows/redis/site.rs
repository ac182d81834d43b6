//! Nodes in one cluster, under a prefix that belongs to the run.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::Result;
use kith_cache::{
    Node,
    remote::{
        SharedBackend, Sharing,
        redis::{RedisOptions, RedisShared},
    },
};

use crate::cache_node::{CacheNode, SharedEpoch};

/// A node among others. It ends with the value.
#[derive(Debug)]
pub(crate) struct Site {
    pub(super) cached: CacheNode,
}

impl Site {
    /// The node itself.
    pub(crate) const fn node(&self) -> &Node {
        &self.cached.node
    }

    /// The state that its namespaces share.
    pub(crate) const fn sharing(&self) -> &Sharing {
        &self.cached.sharing
    }
}

/// A cluster: a prefix in Redis that belongs to the run.
#[derive(Debug)]
pub(super) struct BenchCluster {
    pub(super) url: String,
    prefix: String,
    epochs: SharedEpoch,
    sites: AtomicU64,
}

impl BenchCluster {
    pub(super) fn new(url: &str) -> Self {
        let prefix = format!("kith-bench-{:x}", rand::random::<u64>());
        Self { url: url.to_owned(), prefix, epochs: SharedEpoch::first(), sites: AtomicU64::new(1) }
    }

    /// The text that keys have between their braces.
    pub(super) fn tag(&self) -> String {
        self.options().tag()
    }

    pub(super) fn options(&self) -> RedisOptions {
        RedisOptions { url: self.url.clone(), prefix: self.prefix.clone(), ..RedisOptions::default() }
    }

    /// Adds a node that trusts its memory.
    pub(super) async fn site(&self) -> Result<Site> {
        let shared: Arc<dyn SharedBackend> = RedisShared::connect(self.options()).await?;
        let id = self.sites.fetch_add(1, Ordering::Relaxed);
        let epochs = Arc::new(self.epochs.clone());
        let cached = CacheNode::start(id, &shared, epochs);
        cached.until_trusted().await?;
        Ok(Site { cached })
    }
}
