//! Nodes over one shared server within the process, in virtual time.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use kith_cache::{
    CacheError, Change, Consistency, LoadError, LoadOptions, Loaded, Loader, Node, NodeConfig, Policy, Tier,
    TieredCache, Token, Version, load_each,
    remote::{
        ClusterNode, Epochs, FakeServer, FollowerConfig, MessageMac, PeerConfirmations, Retention, SharedBus,
        SharedError, Sharing, UnpublishedQueue,
    },
};
use parking_lot::Mutex;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{number_codec::NumberCodec, virtual_clock::VirtualClock};

/// A store that answers at once: a record is its version.
#[derive(Debug, Default)]
pub(crate) struct Store {
    records: Mutex<HashMap<u64, u64>>,
    epoch: Mutex<(u64, String)>,
    pub(crate) loads: AtomicU64,
    /// Milliseconds that a load takes.
    pub(crate) takes: AtomicU64,
    /// Whether the epoch cannot be read or raised.
    epoch_hidden: AtomicBool,
}

impl Store {
    /// Commits a version, and does not publish it.
    pub(crate) fn put(&self, key: u64, version: u64) {
        self.records.lock().insert(key, version);
    }

    /// Removes a record, without a broadcast.
    pub(crate) fn remove(&self, key: u64) {
        self.records.lock().remove(&key);
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.lock().0
    }

    /// From now on the epoch can, or cannot, be read and raised.
    pub(crate) fn hide_epoch(&self, hidden: bool) {
        self.epoch_hidden.store(hidden, Ordering::Relaxed);
    }

    fn epoch_answers(&self) -> Result<(), SharedError> {
        if self.epoch_hidden.load(Ordering::Relaxed) { Err(SharedError::Timeout) } else { Ok(()) }
    }
}

#[async_trait]
impl Loader<u64, u64> for Store {
    async fn load(&self, key: &u64, _: LoadOptions) -> Result<Loaded<u64>, LoadError> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let version = self.records.lock().get(key).copied();
        sleep(Duration::from_millis(self.takes.load(Ordering::Relaxed))).await;
        Ok(version.map_or(Loaded::Absent { version: Version::UNVERSIONED }, |version| Loaded::Found {
            value: Arc::new(version),
            version: Version::new(version),
        }))
    }

    async fn load_many(
        &self,
        keys: &[u64],
        options: LoadOptions,
    ) -> Result<Vec<(u64, Loaded<u64>)>, LoadError> {
        load_each(self, keys, options).await
    }
}

#[async_trait]
impl Epochs for Store {
    async fn current(&self) -> Result<(u64, String), SharedError> {
        self.epoch_answers()?;
        Ok(self.epoch.lock().clone())
    }

    async fn raise(&self, seen: u64, server: &str) -> Result<u64, SharedError> {
        self.epoch_answers()?;
        let mut epoch = self.epoch.lock();
        if epoch.0 == seen {
            *epoch = (seen + 1, server.to_owned());
        }
        Ok(epoch.0)
    }
}

/// The server and the store that nodes share.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) server: FakeServer,
    pub(crate) store: Arc<Store>,
    began: Instant,
}

/// A node that follows until it is dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) node: Node,
    pub(crate) cache: TieredCache<u64, u64>,
    pub(crate) member: ClusterNode,
    follows: JoinHandle<()>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self { server: FakeServer::new(Retention::default()), store: Arc::default(), began: Instant::now() }
    }

    /// Starts two nodes and waits until they follow.
    pub(crate) async fn with_two_peers() -> (Self, Peer, Peer) {
        let stage = Self::new();
        let (one, other) = (stage.peer(1, false).await, stage.peer(2, false).await);
        (stage, one, other)
    }

    /// A node that follows by now.
    pub(crate) async fn peer(&self, id: u64, strict: bool) -> Peer {
        self.peer_of(id, Policy { strict, ..Policy::new("thing", |_| 8) }).await
    }

    /// Like `peer`, with this policy.
    pub(crate) async fn peer_of(&self, id: u64, policy: Policy<u64>) -> Peer {
        let config = FollowerConfig::default();
        let sharing = Sharing {
            backend: Arc::new(self.server.clone()),
            queue: Arc::new(UnpublishedQueue::new(100)),
            lease_waiters: Arc::default(),
            patience: Duration::from_millis(1_500),
        };
        let bus = Arc::new(SharedBus {
            id,
            sharing,
            epochs: Arc::<Store>::clone(&self.store),
            mac: MessageMac::new(&[7; 32]),
            confirmations: Arc::new(PeerConfirmations::new(config.trust)),
            bound: Duration::from_millis(100),
        });
        let clock = Arc::new(VirtualClock(self.began));
        let node = Node::new(NodeConfig { clock, ..NodeConfig::following(Arc::<SharedBus>::clone(&bus)) });
        let loader = Arc::<Store>::clone(&self.store);
        let cache = TieredCache::shared(&node, policy, loader, &bus.sharing, Arc::new(NumberCodec));
        let member = ClusterNode::new(node.clone(), bus, Arc::new(format!("node {id}")), config);
        let follows = follow(&member).await;
        Peer { node, cache, member, follows }
    }
}

/// Follows in a task, and does so by now.
async fn follow(member: &ClusterNode) -> JoinHandle<()> {
    let follows = tokio::spawn({
        let member = member.clone();
        async move { member.follow().await }
    });
    while !member.node.trusted() {
        sleep(Duration::from_millis(10)).await;
    }
    follows
}

impl Peer {
    pub(crate) async fn read(&self, key: u64) -> (Option<u64>, Option<Tier>) {
        let entry = self.cache.get_with(&key, &Consistency::Cached).await.unwrap();
        (entry.as_ref().map(|entry| *entry.value), entry.map(|entry| entry.tier))
    }

    /// Commits the version and publishes it.
    pub(crate) async fn write(&self, store: &Store, key: u64, version: u64) -> Result<Token, CacheError> {
        let guard = self.cache.begin_write(&[key]).await;
        store.put(key, version);
        let change = Change::Put { value: Arc::new(version), version: Version::new(version) };
        guard.committed(vec![(key, change)]).await
    }

    /// Publishes queued changes from now on.
    pub(crate) fn drain(&self) -> JoinHandle<()> {
        let member = self.member.clone();
        tokio::spawn(async move { member.bus.drain(&member.node).await })
    }

    /// It receives and sends nothing from now on, as if it were gone; its memory is still asked.
    pub(crate) fn die(&self) {
        self.follows.abort();
    }

    /// The node follows the log again.
    pub(crate) async fn follow_again(&self) -> JoinHandle<()> {
        follow(&self.member).await
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.follows.abort();
    }
}
