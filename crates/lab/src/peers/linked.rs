use std::{ops::Range, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures::future::{join_all, try_join_all};

use super::{PREFIX, Peer, Shape, Store, shared_by};
use crate::{
    proxy::{Mode, Proxy},
    redis_server::RedisServer,
};

/// How long nodes may take to begin.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// Keys that one look at many reads at once.
const AT_ONCE: usize = 500;

/// A node and its way to Redis.
#[derive(Debug)]
pub struct Linked {
    /// The node.
    pub peer: Arc<Peer>,
    /// All its connections to Redis go through here.
    pub link: Proxy,
}

/// Nodes over one Redis and one store.
#[derive(Debug)]
pub struct Peers {
    /// What they share.
    pub redis: RedisServer,
    /// What holds the truth.
    pub store: Store,
    /// The nodes; their numbers are their places and one more.
    pub nodes: Vec<Linked>,
}

impl Peers {
    /// Starts a Redis and so many nodes, and waits until each trusts its memory.
    ///
    /// # Errors
    /// When Redis does not start, or a node does not trust its memory in time.
    pub async fn start(count: u64, store: &Store, shape: &Shape) -> Result<Self> {
        let mut peers =
            Self { redis: RedisServer::start(&[]).await?, store: store.clone(), nodes: Vec::new() };
        for id in 1..=count {
            let link = Proxy::of_messages(peers.redis.address(), id).await?;
            let shared = shared_by(&format!("redis://{}", link.address()), PREFIX).await?;
            let peer = Arc::new(Peer::start(id, &shared, store, shape));
            peers.nodes.push(Linked { peer, link });
        }
        peers.until_trusted(READY_WITHIN).await?;
        Ok(peers)
    }

    /// The node at this place.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn peer(&self, at: usize) -> &Arc<Peer> {
        &self.nodes[at].peer
    }

    /// Waits until each node trusts its memory.
    ///
    /// # Errors
    /// When one does not within that time.
    pub async fn until_trusted(&self, within: Duration) -> Result<()> {
        let trusted = join_all(self.nodes.iter().map(|node| node.peer.until_trusted(within))).await;
        ensure!(trusted.iter().all(|trusted| *trusted), "trusted after {within:?}: {trusted:?}");
        Ok(())
    }

    /// Puts all links right.
    pub fn heal(&self) {
        self.nodes.iter().for_each(|node| node.link.set(Mode::Pass));
    }

    /// Of these keys and all nodes, how many reads give an older version than the store has.
    ///
    /// # Errors
    /// When a read fails.
    pub async fn stale(&self, keys: Range<u64>) -> Result<u64> {
        let stale = self.nodes.iter().map(|node| stale(&node.peer, &self.store, keys.clone()));
        try_join_all(stale).await.map(|stale| stale.into_iter().sum())
    }
}

async fn stale(peer: &Peer, store: &Store, keys: Range<u64>) -> Result<u64> {
    let (keys, mut stale) = (keys.collect::<Vec<u64>>(), 0);
    for some in keys.chunks(AT_ONCE) {
        // First what is the truth: it only grows.
        let least: Vec<u64> = some.iter().map(|key| store.version(*key)).collect();
        let versions = peer.records().read_many(some).await.context("a read failed")?;
        stale += versions.iter().zip(&least).map(|(version, least)| u64::from(version < least)).sum::<u64>();
    }
    Ok(stale)
}
