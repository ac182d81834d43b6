use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use kith_lab_servers::{proxy::Proxy, redis_server::RedisServer};

use super::{Scheme, SchemeNode, coalesced::Coalesced, kith::KithNode, leases::Leases, published::Published};
use crate::cache_node::Store;

/// How many keys one look at all keys reads at once.
const AT_ONCE: usize = 100;

/// A scheme's nodes, each with a link to the Redis that they share.
pub(super) struct SchemeSite {
    pub(super) nodes: Vec<Arc<dyn SchemeNode>>,
    pub(super) links: Vec<Proxy>,
    pub(super) redis: RedisServer,
    pub(super) store: Store,
}

impl SchemeSite {
    /// Starts a Redis and so many nodes. Random behaviour on the links follows from the seed.
    pub(super) async fn start(scheme: Scheme, count: usize, store: &Store, seed: u64) -> Result<Self> {
        let redis = RedisServer::start(&[]).await?;
        let mut site = Self { nodes: Vec::new(), links: Vec::new(), redis, store: store.clone() };
        for id in (1_u64..).take(count) {
            let link = Proxy::for_pubsub(site.redis.address(), seed.wrapping_add(id)).await?;
            let url = format!("redis://{}", link.address());
            site.nodes.push(node(scheme, id, &url, store).await?);
            site.links.push(link);
        }
        Ok(site)
    }

    /// The keys below that number for which any node gives an older version than the store has.
    pub(super) async fn stale(&self, keys: u64) -> Result<BTreeSet<u64>> {
        let (keys, mut stale) = ((0..keys).collect::<Vec<u64>>(), BTreeSet::new());
        for node in &self.nodes {
            for some in keys.chunks(AT_ONCE) {
                // Read the store first: its versions only grow.
                let least: Vec<u64> = some.iter().map(|key| self.store.version(*key)).collect();
                let versions = try_join_all(some.iter().map(|key| node.read(*key)));
                let versions = versions.await.context("a read failed")?;
                let read = some.iter().zip(versions.iter().zip(&least));
                stale.extend(read.filter(|(_, (version, least))| version < least).map(|(key, _)| *key));
            }
        }
        Ok(stale)
    }
}

async fn node(scheme: Scheme, id: u64, url: &str, store: &Store) -> Result<Arc<dyn SchemeNode>> {
    Ok(match scheme {
        Scheme::Kith => Arc::new(KithNode::start(id, url, store).await?),
        Scheme::DeleteAndPublish => Arc::new(Published::start(url, store).await?),
        Scheme::Leases => Arc::new(Leases::start(url, store).await?),
        Scheme::GetWith => Arc::new(Coalesced::start(url, store).await?),
    })
}
