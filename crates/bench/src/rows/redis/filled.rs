//! Records in Redis that a node reads.

use std::{
    fmt,
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use anyhow::{Context as _, Result, ensure};
use kith_cache::{
    Consistency, Policy, Tier, TieredCache,
    remote::{Codec, address},
};

use super::{
    raw::RawRedis,
    site::{BenchCluster, Site},
};
use crate::rows::memory::SameValueLoader;

/// Keys in one call.
pub(super) const BATCH: usize = 100;

/// A node with an empty memory, records in Redis that another left there, and a client that reads the same
/// bytes.
pub(super) struct FilledRedis<V> {
    pub(super) raw: RawRedis,
    site: Site,
    cache: TieredCache<i64, V>,
    namespace: &'static str,
    /// The first record that was not read yet: each is read once, so that memory never has to be emptied.
    next: AtomicI64,
}

impl<V: Clone + fmt::Debug + Send + Sync + 'static> FilledRedis<V> {
    /// Fills the namespace in this policy with `records` identical records.
    pub(super) async fn new(
        url: &str,
        records: i64,
        policy: Policy<V>,
        value: V,
        codec: impl Codec<V> + Clone,
    ) -> Result<Self> {
        let cluster = BenchCluster::new(url);
        let (filler, site) = (cluster.site().await?, cluster.site().await?);
        let value = Arc::new(value);
        let cache = |site: &Site| {
            // Nothing is refreshed while it is timed.
            let policy = Policy { early_refresh: 2.0, ..policy.clone() };
            let loader = Arc::new(SameValueLoader(Arc::clone(&value)));
            TieredCache::shared(site.node(), policy, loader, site.sharing(), Arc::new(codec.clone()))
        };
        let (filling, cache) = (cache(&filler), cache(&site));
        let keys: Vec<i64> = (1..=records).collect();
        for keys in keys.chunks(BATCH) {
            for answer in filling.get_many(keys, &Consistency::Cached).await {
                ensure!(answer?.is_some(), "a record is missing");
            }
        }
        let raw = RawRedis::connect(url, &cluster.tag()).await?;
        Ok(Self { raw, site, cache, namespace: policy.name, next: AtomicI64::new(1) })
    }

    /// Takes `count` records that were not read yet.
    pub(super) fn take(&self, count: i64) -> Vec<i64> {
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        (first..first + count).collect()
    }

    /// A record, which has to come from Redis.
    pub(super) async fn hit(&self, key: i64) -> Result<Arc<V>> {
        let entry = self.cache.get(&key).await?.context("a record is missing")?;
        ensure!(entry.tier == Tier::Redis, "a record did not come from Redis");
        Ok(black_box(entry).value)
    }

    /// Like `hit`, but for several records in one call.
    pub(super) async fn hits(&self, keys: &[i64]) -> Result<()> {
        for entry in black_box(self.cache.get_many(keys, &Consistency::Cached).await) {
            let entry = entry?.context("a record is missing")?;
            ensure!(entry.tier == Tier::Redis, "a record did not come from Redis");
        }
        Ok(())
    }

    /// A record's name in Redis.
    pub(super) fn key(&self, key: i64) -> String {
        format!("{{{}}}:{}", self.raw.tag, address(self.site.node().epoch(), self.namespace, &key))
    }
}
