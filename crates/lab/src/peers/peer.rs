use std::{fmt, sync::Arc, time::Duration};

use kith_cache::{
    CacheError, Moment, Node, NodeConfig, Policy, ThreadRandom,
    remote::{
        ClusterNode, Feed, FeedReader, FollowerStats, Following, LeaseWaiters, MessageMac, PeerConfirmations,
        Queue, Reading, RecentChanges, Shared, SharedBus, Sharing,
    },
};
use kith_store::Epoch;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::{Records, SEAL, Store};

/// First number of the records of which no node may decide by an old version.
const STRICT: u64 = 1 << 40;

/// How the nodes are made.
#[derive(Clone, Debug)]
pub struct Shape {
    /// How copies are kept.
    pub policy: Policy<u64>,
    /// How a node follows.
    pub following: Following,
    /// How many keys may wait to be published.
    pub waiting_max: usize,
    /// How long a change may take before it waits.
    pub change_bound: Duration,
    /// How long a load waits for the lease of another.
    pub patience: Duration,
}

impl Default for Shape {
    /// As in production, with room for 100,000 that wait: 100 ms for a change, 500 ms for a lease of another.
    fn default() -> Self {
        Self {
            policy: Policy::new("thing", |_| 300),
            following: Following::default(),
            waiting_max: 100_000,
            change_bound: Duration::from_millis(100),
            patience: Duration::from_millis(500),
        }
    }
}

/// One node.
pub struct Peer {
    records: Records,
    strict: Records,
    node: Node,
    queue: Arc<Queue>,
    bus: Arc<SharedBus>,
    recent: Arc<RecentChanges>,
    tally: Arc<FollowerStats>,
    standing: Arc<PeerConfirmations>,
    tasks: Vec<JoinHandle<()>>,
}

impl Peer {
    /// Begins to follow; trusted once it has heard, see [`Self::until_trusted`].
    #[must_use]
    pub fn start(id: u64, shared: &Arc<dyn Shared>, store: &Store, shape: &Shape) -> Self {
        let queue = Arc::new(Queue::new(shape.waiting_max));
        let wakes = Arc::new(LeaseWaiters::default());
        let standing = Arc::new(PeerConfirmations::new(shape.following.trust));
        let bus = Arc::new(SharedBus {
            id,
            seal: MessageMac::new(&SEAL),
            standing: Arc::clone(&standing),
            shared: Arc::clone(shared),
            queue: Arc::clone(&queue),
            epochs: Arc::new(store.clone()),
            bound: shape.change_bound,
        });
        let bus_of_node = Arc::<SharedBus>::clone(&bus);
        let trusted_until = Moment::new(0);
        let node = Node::new(NodeConfig { trusted_until, bus: bus_of_node, ..NodeConfig::local(0) });
        let sharing = Sharing {
            shared: Arc::clone(shared),
            queue: Arc::clone(&queue),
            wakes: Arc::clone(&wakes),
            patience: shape.patience,
        };
        let records = Records::new(&node, shape.policy.clone(), store, &sharing, 0);
        let strict = Policy { name: "strict", strict: true, ..shape.policy.clone() };
        let strict = Records::new(&node, strict, store, &sharing, STRICT);
        let (recent, tally) = (Arc::<RecentChanges>::default(), Arc::<FollowerStats>::default());
        let member = ClusterNode {
            node: node.clone(),
            id,
            about: Arc::new(String::new()),
            shared: Arc::clone(shared),
            epochs: Arc::new(store.clone()),
            queue: Arc::clone(&queue),
            wakes,
            standing: Arc::clone(&standing),
            seal: MessageMac::new(&SEAL),
            recent: Arc::clone(&recent),
            tally: Arc::clone(&tally),
            following: shape.following,
            random: Arc::new(ThreadRandom),
        };
        let (drained, drains) = (node.clone(), Arc::clone(&bus));
        let tasks = vec![
            tokio::spawn(async move { member.follow().await }),
            tokio::spawn(async move { drains.drain(&drained).await }),
        ];
        Self { records, strict, node, queue, bus, recent, tally, standing, tasks }
    }

    /// Reads the change feed of the store from now on and publishes what its writer did not. Ends with the peer.
    pub fn read_feed(&mut self, feed: Arc<dyn Feed>) {
        let reader = FeedReader {
            node: self.node.clone(),
            bus: Arc::clone(&self.bus),
            feed,
            recent: Arc::clone(&self.recent),
            tally: Arc::clone(&self.tally),
            reading: Reading::default(),
            random: Arc::new(ThreadRandom),
        };
        self.tasks.push(tokio::spawn(async move { reader.read().await }));
    }

    /// Writes a record, see [`Records::write`].
    ///
    /// # Errors
    /// When the write is not acknowledged.
    pub async fn write(&self, key: u64) -> Result<(u64, bool), CacheError> {
        self.records.write(key).await
    }

    /// Reads a record, see [`Records::read`].
    ///
    /// # Errors
    /// When the read fails.
    pub async fn read(&self, key: u64) -> Result<u64, CacheError> {
        self.records.read(key).await
    }

    /// The records that are as fresh as their bound says.
    #[must_use]
    pub const fn records(&self) -> &Records {
        &self.records
    }

    /// The records of which no node may decide by an old version.
    #[must_use]
    pub const fn strict(&self) -> &Records {
        &self.strict
    }

    /// The node.
    #[must_use]
    pub const fn node(&self) -> &Node {
        &self.node
    }

    /// The epoch in which the node trusts its memory, with its server.
    #[must_use]
    pub fn followed(&self) -> Option<Epoch> {
        let (number, server) = self.standing.trusted(&self.node)?;
        Some(Epoch { number, server })
    }

    /// How many keys wait to be published.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Waits until memory is trusted. False: it is not within that time.
    pub async fn until_trusted(&self, within: Duration) -> bool {
        let give_up = Instant::now() + within;
        while !self.node.trusted() {
            if Instant::now() >= give_up {
                return false;
            }
            sleep(Duration::from_millis(5)).await;
        }
        true
    }

    /// Ends all its background work: it neither receives nor publishes, like a node whose process was killed.
    pub fn kill(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("node", &self.node).finish_non_exhaustive()
    }
}
