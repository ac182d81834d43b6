use std::sync::Arc;

use anyhow::Result;
use kith_cache::{
    Change, Policy, TieredCache, Version,
    remote::{
        Codec, SharedBackend,
        redis::{RedisOptions, RedisShared},
    },
};

use super::{SchemeNode, feed::StoreFeed};
use crate::cache_node::{CacheNode, Store, secret};

/// The namespace for the records.
const NAMESPACE: &str = "thing";
/// A record's weight in memory.
const WEIGHT: usize = 300;
/// Bytes that a record has in Redis besides its version: about as many as a user has.
const PADDING: usize = 292;

/// A Kith node's cache, as in production: the first node reads the store's change feed.
pub(super) struct KithNode {
    cache: TieredCache<u64, u64>,
    store: Store,
    _node: CacheNode,
}

impl KithNode {
    /// A node over the Redis at this address, which trusts its memory.
    pub(super) async fn start(id: u64, url: &str, store: &Store) -> Result<Self> {
        let options = RedisOptions { url: url.to_owned(), mac: Some(secret()), ..RedisOptions::default() };
        let shared: Arc<dyn SharedBackend> = RedisShared::connect(options).await?;
        let mut node = CacheNode::start(id, &shared, Arc::clone(&shared), Arc::new(store.clone()));
        let policy = Policy::new(NAMESPACE, |_| WEIGHT);
        let loader = Arc::new(store.clone());
        let cache = TieredCache::shared(&node.node, policy, loader, &node.sharing, Arc::new(Padded));
        if id == 1 {
            node.read_feed(Arc::new(StoreFeed::new(store, NAMESPACE)));
        }
        node.until_trusted().await?;
        Ok(Self { cache, store: store.clone(), _node: node })
    }
}

#[async_trait::async_trait]
impl SchemeNode for KithNode {
    async fn read(&self, key: u64) -> Result<u64> {
        Ok(self.cache.get(&key).await?.map_or(0, |entry| *entry.value))
    }

    async fn write(&self, key: u64) -> Result<u64> {
        let guard = self.cache.begin_write(&[key]).await;
        let version = self.store.commit(key);
        let change = Change::Put { value: Arc::new(version), version: Version::new(version) };
        guard.committed(vec![(key, change)]).await?;
        self.store.acknowledge(key, version);
        Ok(version)
    }
}

/// A version, padded to a record's size.
#[derive(Debug)]
struct Padded;

impl Codec<u64> for Padded {
    fn schema(&self) -> u16 {
        1
    }

    fn encode(&self, value: &u64) -> Vec<u8> {
        [&value.to_be_bytes()[..], &[0; PADDING]].concat()
    }

    fn decode(&self, bytes: &[u8]) -> Option<u64> {
        let (version, padding) = bytes.split_first_chunk::<8>()?;
        (padding.len() == PADDING).then(|| u64::from_be_bytes(*version))
    }
}
