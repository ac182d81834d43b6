//! A node with the real cache.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use kith_cache::{
    CacheError, Change, Consistency, Entry, Node, NodeConfig, Policy, TieredCache, Token, Version,
    remote::{
        ClusterNode, FeedReader, FeedTiming, FollowerConfig, MessageMac, PeerConfirmations, SharedBus,
        Sharing, UnpublishedQueue,
    },
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::{
    faults::Fault,
    gate::Gate,
    holds::{Call, Direction, Holds},
    number_codec::NumberCodec,
    phase::{Phase, Phases},
    store::{Outcome, StoreClient},
    store_loader::{LOADS_MAX, StoreLoader},
    truth::{AGE_MAX, Id, Kind},
    virtual_clock::VirtualClock,
    wire::Wire,
    world::World,
};

/// A record is its position in its history: the answer of a read shows its age.
pub(crate) type Cache = TieredCache<u64, u64>;

pub(crate) struct Peer {
    pub(crate) id: u64,
    pub(crate) node: Node,
    pub(crate) wire: Wire,
    pub(crate) client: StoreClient,
    pub(crate) holds: Holds,
    pub(crate) phases: Phases,
    pub(crate) queue: Arc<UnpublishedQueue>,
    caches: [Cache; 4],
    loaders: [Arc<StoreLoader>; 4],
    latest_reads: Mutex<BTreeMap<Id, u64>>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Peer {
    pub(crate) fn start(world: &World, id: u64) -> Arc<Self> {
        let (holds, phases) = (Holds::default(), Phases::default());
        let client = StoreClient {
            node: id,
            store: world.store.clone(),
            chance: world.chance.clone(),
            faults: world.faults,
            holds: holds.clone(),
            phases: phases.clone(),
        };
        let wire = Wire::new(&world.server, &client, world.began);
        let bus = bus(world, &wire);
        let node = node(world, &bus);
        let [thing, list, right] = Kind::ALL;
        let kinds = [thing, list, right, Kind::Count];
        let loaders = kinds.map(|kind| Arc::new(StoreLoader::new(&client, kind)));
        let cache = |at: usize| {
            let policy = policy(kinds[at], world.faults.has(Fault::Short));
            let loader = Arc::<StoreLoader>::clone(&loaders[at]);
            TieredCache::shared(&node, policy, loader, &bus.sharing, Arc::new(NumberCodec))
        };
        let caches = [cache(0), cache(1), cache(2), cache(3)];
        let queue = Arc::clone(&bus.sharing.queue);
        follow(world, member(world, &node, bus), &client);
        let latest_reads = Mutex::default();
        Arc::new(Self { id, node, wire, client, holds, phases, queue, caches, loaders, latest_reads })
    }

    pub(crate) fn cache(&self, kind: Kind) -> &Cache {
        &self.caches[kind as usize]
    }

    /// Loads of a kind that this node sent to the store so far.
    pub(crate) fn loads(&self, kind: Kind) -> u64 {
        self.loaders[kind as usize].loads.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Acts like a node's owner task: one write to the store changes all records, of one kind or, like a
    /// follow and a block, of several kinds. Each kind is published separately, in the order of `ids`.
    /// Returns a token for all acknowledged records, and their positions.
    pub(crate) async fn write(&self, ids: &[Id], exists: bool) -> Option<(Token, Vec<u64>)> {
        let mut guards = Vec::new();
        for of_kind in ids.chunk_by(|a, b| a.0 == b.0) {
            let keys: Vec<u64> = of_kind.iter().map(|(_, key)| *key).collect();
            guards.push((of_kind, self.cache(of_kind[0].0).begin_write(&keys).await));
        }
        match self.client.commit(ids, exists).await {
            Outcome::Applied(applied) => {
                let (mut left, mut token) = (applied.iter(), None);
                for (of_kind, guard) in guards {
                    let change = |((kind, key), (version, position)): (&Id, &(u64, u64))| {
                        (*key, change(*kind, exists, *version, *position))
                    };
                    let changes = of_kind.iter().zip(left.by_ref()).map(change).collect();
                    // If this fails, the later guards are dropped and discard the copies that memory holds.
                    token = Some(guard.committed(changes).await.ok()?);
                }
                Some((token?, applied.into_iter().map(|(_, position)| position).collect()))
            }
            Outcome::Failed => {
                for (_, guard) in guards {
                    guard.aborted().await;
                }
                None
            }
            Outcome::Unknown => {
                // It may be committed or not, and nothing is acknowledged.
                for (_, guard) in guards {
                    drop(guard.unknown().await);
                }
                None
            }
        }
    }

    /// Like [`Self::write`], for one record that exists. Returns its position when the write was
    /// acknowledged.
    pub(crate) async fn put(&self, id: Id) -> Option<(Token, u64)> {
        let (token, positions) = self.write(&[id], true).await?;
        self.client.store.truth.acknowledge(id, positions[0]);
        Some((token, positions[0]))
    }

    /// The position that a read gives; `Ok(None)`: the record does not live.
    pub(crate) async fn ask(&self, id: Id, how: &Consistency) -> Result<Option<u64>, CacheError> {
        let answer = self.cache(id.0).get_with(&id.1, how).await;
        answer.map(|entry| entry.map(|entry| self.position(id, &entry)))
    }

    /// The latest position that this node has given to a reader; 0 where records have no versions.
    pub(crate) fn latest_read(&self, id: Id) -> u64 {
        self.latest_reads.lock().get(&id).copied().unwrap_or_default()
    }

    /// A reader was given this.
    pub(crate) fn record_read(&self, id: Id, answer: Option<u64>) {
        if let Some(position) = answer.filter(|_| id.0.is_versioned()) {
            let mut latest_reads = self.latest_reads.lock();
            let latest = latest_reads.entry(id).or_default();
            *latest = position.max(*latest);
        }
    }

    /// The position that a cached read gives, which must not fail.
    pub(crate) async fn read(&self, id: Id) -> Option<u64> {
        self.ask(id, &Consistency::Cached).await.unwrap()
    }

    /// Like `read`, in its own task.
    pub(crate) fn reads(self: &Arc<Self>, id: Id) -> JoinHandle<Option<u64>> {
        let peer = Arc::clone(self);
        tokio::spawn(async move { peer.read(id).await })
    }

    /// Writes in a task of its own. Gives the position that was acknowledged.
    pub(crate) fn puts(self: &Arc<Self>, id: Id) -> JoinHandle<Option<u64>> {
        let peer = Arc::clone(self);
        tokio::spawn(async move {
            let phases = peer.phases.clone();
            phases.live(peer.put(id)).await.flatten().map(|(_, position)| position)
        })
    }

    /// Starts a task of this node, and returns once it is held at this call.
    pub(crate) async fn held<T>(
        self: &Arc<Self>,
        call: Call,
        direction: Direction,
        start: impl FnOnce(&Arc<Self>) -> JoinHandle<T>,
    ) -> (Gate, JoinHandle<T>) {
        let mut gate = self.holds.hold(call, direction);
        let task = start(self);
        gate.entered().await;
        (gate, task)
    }

    /// The position that an entry means; reports an entry that has a version although its kind has none, or
    /// the reverse.
    pub(crate) fn position(&self, id: Id, entry: &Entry<u64>) -> u64 {
        let (kind, key) = id;
        if kind.is_versioned() != entry.version.is_versioned() {
            self.client.store.truth.report(format!("{kind:?} {key} has version {}", entry.version));
        }
        *entry.value
    }

    /// Its tasks are dropped where they are, and nothing that they send arrives any more.
    pub(crate) fn kill(&self) {
        self.phases.set(Phase::Dead);
    }
}

fn change(kind: Kind, exists: bool, version: u64, position: u64) -> Change<u64> {
    let version = Version::new(version);
    match (kind, exists) {
        (Kind::List | Kind::Count, _) => Change::Invalidate { version: None },
        (_, true) => Change::Put { value: Arc::new(position), version },
        (_, false) => Change::Deleted { version },
    }
}

fn policy(kind: Kind, short: bool) -> Policy<u64> {
    let mut policy = Policy::new(kind.name(), |_| 8);
    policy.strict = kind == Kind::Right;
    if kind == Kind::Count {
        policy.age_max = Some(AGE_MAX);
        policy.max_stale = Duration::ZERO;
    }
    policy.loads_in_flight = LOADS_MAX;
    if short {
        policy.ttl = Duration::from_millis(400);
        policy.negative_ttl = Duration::from_millis(300);
        policy.early_refresh = 0.5;
    }
    policy
}

fn bus(world: &World, wire: &Wire) -> Arc<SharedBus> {
    let sharing = Sharing {
        backend: Arc::new(wire.clone()),
        queue: Arc::new(UnpublishedQueue::new(if world.faults.has(Fault::Overflow) { 2 } else { 1_000 })),
        lease_waiters: Arc::default(),
        patience: Duration::from_millis(1_500),
    };
    Arc::new(SharedBus {
        id: wire.client.node,
        sharing,
        epochs: Arc::new(wire.client.clone()),
        mac: MessageMac::new(&[7; 32]),
        confirmations: Arc::new(PeerConfirmations::new(FollowerConfig::default().trust)),
        bound: Duration::from_millis(100),
    })
}

fn node(world: &World, bus: &Arc<SharedBus>) -> Node {
    let (clock, random) = (Arc::new(VirtualClock(world.began)), Arc::new(world.chance.clone()));
    Node::new(NodeConfig { clock, random, ..NodeConfig::following(Arc::<SharedBus>::clone(bus)) })
}

fn member(world: &World, node: &Node, bus: Arc<SharedBus>) -> ClusterNode {
    // Every bound holds without the pause after an outage, which would hide what else keeps old copies out.
    let config = FollowerConfig { settle_time: Duration::ZERO, ..FollowerConfig::default() };
    let random = Arc::new(world.chance.clone());
    ClusterNode { random, ..ClusterNode::new(node.clone(), bus, Arc::new(String::new()), config) }
}

/// Starts the tasks of a node.
fn follow(world: &World, member: ClusterNode, client: &StoreClient) {
    let phases = &client.phases;
    let (follower, publisher) = (member.clone(), member.clone());
    live(phases, async move { follower.follow().await });
    live(phases, async move { publisher.bus.drain(&publisher.node).await });
    if !world.faults.has(Fault::NoFeed) {
        let reader = FeedReader { member, feed: Arc::new(client.clone()), timing: FeedTiming::default() };
        live(phases, async move { reader.read().await });
    }
}

fn live(phases: &Phases, task: impl Future<Output = ()> + Send + 'static) {
    let phases = phases.clone();
    tokio::spawn(async move { phases.live(task).await });
}
