//! One node of the real cache.

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
    gate::Gate,
    holds::{Call, Holds, Way},
    number_codec::NumberCodec,
    phase::{Phase, Phases},
    shelf::{LOADS_MAX, Shelf},
    store::{Outcome, StoreWay},
    truth::{AGE_MAX, Id, Kind},
    virtual_clock::VirtualClock,
    weather::Fault,
    wire::Wire,
    world::World,
};

/// A record is its position in its history: the answer of a read shows its age.
pub(crate) type Cache = TieredCache<u64, u64>;

/// One node.
pub(crate) struct Peer {
    pub(crate) id: u64,
    pub(crate) node: Node,
    pub(crate) wire: Wire,
    pub(crate) way: StoreWay,
    pub(crate) holds: Holds,
    pub(crate) phases: Phases,
    pub(crate) queue: Arc<UnpublishedQueue>,
    caches: [Cache; 4],
    shelves: [Arc<Shelf>; 4],
    shown: Mutex<BTreeMap<Id, u64>>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Peer {
    pub(crate) fn start(world: &World, id: u64) -> Arc<Self> {
        let (holds, phases) = (Holds::default(), Phases::default());
        let way = StoreWay {
            node: id,
            store: world.store.clone(),
            chance: world.chance.clone(),
            weather: world.weather,
            holds: holds.clone(),
            phases: phases.clone(),
        };
        let wire = Wire::new(&world.server, &way, world.began);
        let bus = bus(world, &wire);
        let node = node(world, &bus);
        let [thing, list, right] = Kind::ALL;
        let kinds = [thing, list, right, Kind::Count];
        let shelves = kinds.map(|kind| Arc::new(Shelf::new(&way, kind)));
        let cache = |at: usize| {
            let policy = policy(kinds[at], world.weather.has(Fault::Short));
            let shelf = Arc::<Shelf>::clone(&shelves[at]);
            TieredCache::shared(&node, policy, shelf, &bus.sharing, Arc::new(NumberCodec))
        };
        let caches = [cache(0), cache(1), cache(2), cache(3)];
        let queue = Arc::clone(&bus.sharing.queue);
        follow(world, member(world, &node, bus), &way);
        let shown = Mutex::default();
        Arc::new(Self { id, node, wire, way, holds, phases, queue, caches, shelves, shown })
    }

    pub(crate) fn cache(&self, kind: Kind) -> &Cache {
        &self.caches[kind as usize]
    }

    /// Loads of a kind that this node sent to the store so far.
    pub(crate) fn loads(&self, kind: Kind) -> u64 {
        self.shelves[kind as usize].loads.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// What an owner task of a node does, with records of one kind or, like a follow and a block, of several: one write
    /// of the store changes them all, and each kind is published separately, in the order of `ids`. Returns what was
    /// acknowledged: a token for all of them, and their positions.
    pub(crate) async fn write(&self, ids: &[Id], exists: bool) -> Option<(Token, Vec<u64>)> {
        let mut guards = Vec::new();
        for of_kind in ids.chunk_by(|a, b| a.0 == b.0) {
            let keys: Vec<u64> = of_kind.iter().map(|(_, key)| *key).collect();
            guards.push((of_kind, self.cache(of_kind[0].0).begin_write(&keys).await));
        }
        match self.way.commit(ids, exists).await {
            Outcome::Landed(landed) => {
                let (mut left, mut token) = (landed.iter(), None);
                for (of_kind, guard) in guards {
                    let change = |((kind, key), (version, place)): (&Id, &(u64, u64))| {
                        (*key, change(*kind, exists, *version, *place))
                    };
                    let changes = of_kind.iter().zip(left.by_ref()).map(change).collect();
                    // Of the later ones a guard that is dropped gives up what memory holds.
                    token = Some(guard.committed(changes).await.ok()?);
                }
                Some((token?, landed.into_iter().map(|(_, place)| place).collect()))
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

    /// As [`Self::write`] of one living record, whose place is returned when it was acknowledged.
    pub(crate) async fn put(&self, id: Id) -> Option<(Token, u64)> {
        let (token, places) = self.write(&[id], true).await?;
        self.way.store.truth.acknowledge(id, places[0]);
        Some((token, places[0]))
    }

    /// The place that a read gives; `Ok(None)`: the record does not live.
    pub(crate) async fn ask(&self, id: Id, how: &Consistency) -> Result<Option<u64>, CacheError> {
        let answer = self.cache(id.0).get_with(&id.1, how).await;
        answer.map(|entry| entry.map(|entry| self.place(id, &entry)))
    }

    /// The latest place that this node has given to a reader; 0 where records have no versions.
    pub(crate) fn shown(&self, id: Id) -> u64 {
        self.shown.lock().get(&id).copied().unwrap_or_default()
    }

    /// A reader was given this.
    pub(crate) fn shows(&self, id: Id, answer: Option<u64>) {
        if let Some(place) = answer.filter(|_| id.0.is_versioned()) {
            let mut shown = self.shown.lock();
            let latest = shown.entry(id).or_default();
            *latest = place.max(*latest);
        }
    }

    /// The place that a cached read gives, which must not fail.
    pub(crate) async fn read(&self, id: Id) -> Option<u64> {
        self.ask(id, &Consistency::Cached).await.unwrap()
    }

    /// The same in a task of its own.
    pub(crate) fn reads(self: &Arc<Self>, id: Id) -> JoinHandle<Option<u64>> {
        let peer = Arc::clone(self);
        tokio::spawn(async move { peer.read(id).await })
    }

    /// Writes in a task of its own. Gives the place that was acknowledged.
    pub(crate) fn puts(self: &Arc<Self>, id: Id) -> JoinHandle<Option<u64>> {
        let peer = Arc::clone(self);
        tokio::spawn(async move {
            let phases = peer.phases.clone();
            phases.live(peer.put(id)).await.flatten().map(|(_, place)| place)
        })
    }

    /// Starts a task of this node, and returns once it is held at this call.
    pub(crate) async fn held<T>(
        self: &Arc<Self>,
        call: Call,
        way: Way,
        start: impl FnOnce(&Arc<Self>) -> JoinHandle<T>,
    ) -> (Gate, JoinHandle<T>) {
        let mut gate = self.holds.hold(call, way);
        let task = start(self);
        gate.entered().await;
        (gate, task)
    }

    /// The position that an entry means; reports one whose value is not of its version.
    pub(crate) fn place(&self, id: Id, entry: &Entry<u64>) -> u64 {
        let (kind, key) = id;
        if kind.is_versioned() != entry.version.is_versioned() {
            self.way.store.truth.report(format!("{kind:?} {key} has version {}", entry.version));
        }
        *entry.value
    }

    /// Its tasks are dropped where they are, and nothing that they send arrives any more.
    pub(crate) fn kill(&self) {
        self.phases.set(Phase::Dead);
    }
}

fn change(kind: Kind, exists: bool, version: u64, place: u64) -> Change<u64> {
    let version = Version::new(version);
    match (kind, exists) {
        (Kind::List | Kind::Count, _) => Change::Invalidate { version: None },
        (_, true) => Change::Put { value: Arc::new(place), version },
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
        queue: Arc::new(UnpublishedQueue::new(if world.weather.has(Fault::Overflow) { 2 } else { 1_000 })),
        lease_waiters: Arc::default(),
        patience: Duration::from_millis(1_500),
    };
    Arc::new(SharedBus {
        id: wire.way.node,
        sharing,
        epochs: Arc::new(wire.way.clone()),
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
    let following = FollowerConfig { settle_time: Duration::ZERO, ..FollowerConfig::default() };
    let random = Arc::new(world.chance.clone());
    ClusterNode { random, ..ClusterNode::new(node.clone(), bus, Arc::new(String::new()), following) }
}

/// Starts the tasks of a node.
fn follow(world: &World, member: ClusterNode, way: &StoreWay) {
    let phases = &way.phases;
    let (follower, publisher) = (member.clone(), member.clone());
    live(phases, async move { follower.follow().await });
    live(phases, async move { publisher.bus.drain(&publisher.node).await });
    if !world.weather.has(Fault::NoFeed) {
        let reader = FeedReader { member, feed: Arc::new(way.clone()), timing: FeedTiming::default() };
        live(phases, async move { reader.read().await });
    }
}

fn live(phases: &Phases, task: impl Future<Output = ()> + Send + 'static) {
    let phases = phases.clone();
    tokio::spawn(async move { phases.live(task).await });
}
