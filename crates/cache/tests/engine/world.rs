//! Nodes of the real cache over one store and one shared server, in one thread and in virtual time.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_cache::{
    Change, Clock, Consistency, LoadError, LoadOptions, Loaded, Loader, Moment, Node, NodeConfig, Policy,
    TieredCache, Version,
    remote::{
        Codec, Epochs, FakeServer, Following, Kept, Member, Queue, Seal, SharedBus, SharedError, Sharing,
        Snapshot, Standing, Tally, UNTOLD, Wakes,
    },
};
use parking_lot::Mutex;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    chance::Chance,
    wire::{Link, Wire},
};

/// A record is its version: what a reader gets tells how old it is.
pub(crate) type Cache = TieredCache<u64, u64>;

/// Tokio's virtual time.
#[derive(Debug)]
struct Virtual(Instant);

impl Clock for Virtual {
    fn now(&self) -> Moment {
        Moment::new(u64::try_from(self.0.elapsed().as_millis()).unwrap())
    }
}

/// A version of a record.
#[derive(Clone, Copy, Debug)]
struct Commit {
    version: u64,
    /// When the nodes had been told of it, or could be no later.
    told: Option<Instant>,
}

/// The store: what it has acknowledged is the truth. Answers late, by chance.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    records: Arc<Mutex<HashMap<u64, Vec<Commit>>>>,
    epoch: Arc<Mutex<(u64, String)>>,
    /// When the shared server was last another one: what it holds is old until nodes have noticed.
    swapped: Arc<Mutex<Option<Instant>>>,
    chance: Chance,
}

impl Store {
    fn new(chance: &Chance) -> Self {
        let epoch = Arc::new(Mutex::new((1, "0".to_owned())));
        Self { records: Arc::default(), epoch, swapped: Arc::default(), chance: chance.clone() }
    }

    /// Commits the next version of a record.
    pub(crate) async fn commit(&self, key: u64) -> u64 {
        sleep(self.chance.delay()).await;
        let version = {
            let mut records = self.records.lock();
            let history = records.entry(key).or_default();
            let version = history.last().map_or(1, |last| last.version + 1);
            history.push(Commit { version, told: None });
            version
        };
        sleep(self.chance.delay()).await;
        version
    }

    pub(crate) fn version(&self, key: u64) -> u64 {
        self.records.lock().get(&key).and_then(|history| history.last()).map_or(0, |last| last.version)
    }

    /// The nodes were told of this version.
    fn told(&self, key: u64, version: u64) {
        let mut records = self.records.lock();
        let history = records.get_mut(&key).unwrap();
        let commit = history.iter_mut().find(|commit| commit.version == version).unwrap();
        commit.told.get_or_insert(Instant::now());
    }

    /// How long before that moment the nodes had been told of a later version than that.
    pub(crate) fn staleness(&self, key: u64, version: u64, at: Instant) -> Duration {
        let records = self.records.lock();
        let Some(history) = records.get(&key) else { return Duration::ZERO };
        let later = history.iter().filter(|commit| commit.version > version);
        let told = later.filter_map(|commit| commit.told).min();
        let told = told.map(|told| self.swapped.lock().map_or(told, |swapped| swapped.max(told)));
        told.map_or(Duration::ZERO, |told| at.saturating_duration_since(told))
    }
}

#[async_trait]
impl Loader<u64, u64> for Store {
    async fn load(&self, key: &u64, _options: LoadOptions) -> Result<Loaded<u64>, LoadError> {
        sleep(self.chance.delay()).await;
        let version = self.version(*key);
        sleep(self.chance.delay()).await;
        Ok(match version {
            0 => Loaded::Absent { version: Version::UNVERSIONED },
            version => Loaded::Found { value: Arc::new(version), version: Version::new(version) },
        })
    }

    async fn load_many(
        &self,
        keys: &[u64],
        options: LoadOptions,
    ) -> Result<Vec<(u64, Loaded<u64>)>, LoadError> {
        let mut all = Vec::new();
        for key in keys {
            all.push((*key, self.load(key, options).await?));
        }
        Ok(all)
    }
}

#[async_trait]
impl Epochs for Store {
    async fn current(&self) -> Result<(u64, String), SharedError> {
        sleep(self.chance.delay()).await;
        Ok(self.epoch.lock().clone())
    }

    async fn raise(&self, seen: u64, server: &str) -> Result<u64, SharedError> {
        sleep(self.chance.delay()).await;
        let mut epoch = self.epoch.lock();
        if epoch.0 == seen {
            *epoch = (seen + 1, server.to_owned());
        }
        Ok(epoch.0)
    }
}

#[derive(Debug)]
struct Plain;

impl Codec<u64> for Plain {
    fn schema(&self) -> u16 {
        1
    }

    fn encode(&self, value: &u64) -> Vec<u8> {
        value.to_be_bytes().to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<u64> {
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    }
}

/// One node.
pub(crate) struct Peer {
    pub(crate) cache: Cache,
    pub(crate) wire: Wire,
    tasks: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").finish_non_exhaustive()
    }
}

impl Peer {
    fn start(world: &World, id: u64) -> Self {
        let wire = Wire::new(&world.server, &world.chance, 5);
        let queue = Arc::new(Queue::new(3));
        let (seal, following) = (Seal::new(&[7; 32]), Following::default());
        let standing = Arc::new(Standing::new(following.trust));
        let wakes = Arc::new(Wakes::default());
        let chance = Arc::new(world.chance.clone());
        let bus = Arc::new(SharedBus {
            id,
            shared: Arc::new(wire.clone()),
            queue: Arc::clone(&queue),
            epochs: Arc::new(world.store.clone()),
            seal: seal.clone(),
            standing: Arc::clone(&standing),
            bound: Duration::from_millis(100),
        });
        let mut config = NodeConfig::local(0);
        config.trusted_until = Moment::new(0);
        config.clock = Arc::new(Virtual(world.began));
        config.random = Arc::<Chance>::clone(&chance);
        config.bus = Arc::<SharedBus>::clone(&bus);
        let node = Node::new(config);
        let sharing =
            Sharing { shared: Arc::new(wire.clone()), queue, wakes, patience: Duration::from_millis(1_500) };
        let loader = Arc::new(world.store.clone());
        let policy = Policy::new("thing", |_| 8);
        let cache = TieredCache::shared(&node, policy, loader, &sharing, Arc::new(Plain));
        let member = Member {
            node: node.clone(),
            id,
            shared: Arc::new(wire.clone()),
            epochs: Arc::new(world.store.clone()),
            about: String::new(),
            queue: Arc::clone(&sharing.queue),
            wakes: Arc::clone(&sharing.wakes),
            standing,
            seal,
            recent: Arc::default(),
            tally: Arc::new(Tally::default()),
            following,
            random: chance,
        };
        let tasks = vec![
            tokio::spawn(async move { member.follow().await }),
            tokio::spawn(async move { bus.drain(&node).await }),
        ];
        Self { cache, wire, tasks }
    }

    /// Commits and tells; what an owner task of a node does. Returns the version that was acknowledged.
    pub(crate) async fn write(&self, store: &Store, key: u64) -> u64 {
        let guard = self.cache.begin_write(&[key]).await;
        let version = store.commit(key).await;
        let change = Change::Put { value: Arc::new(version), version: Version::new(version) };
        let token = guard.committed(vec![(key, change)]).await.unwrap();
        if token.positions()[0].number != UNTOLD {
            store.told(key, version);
        }
        version
    }

    /// The version that a cached read gives; `None`: it failed.
    pub(crate) async fn read(&self, key: u64) -> Option<u64> {
        let answer = self.cache.get_with(&key, &Consistency::Cached).await.ok()?;
        Some(answer.map_or(0, |entry| *entry.value))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// All there is.
pub(crate) struct World {
    pub(crate) chance: Chance,
    pub(crate) server: FakeServer,
    pub(crate) store: Store,
    began: Instant,
    /// What the server held at an earlier moment.
    dump: Mutex<Option<Snapshot>>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let chance = Chance::new(seed);
        let store = Store::new(&chance);
        Self {
            server: FakeServer::new(Kept::default()),
            store,
            chance,
            began: Instant::now(),
            dump: Mutex::default(),
        }
    }

    pub(crate) fn peers(&self, count: u64) -> Vec<Arc<Peer>> {
        (0..count).map(|id| Arc::new(Peer::start(self, id))).collect()
    }

    /// Something happens to a link or to the server, or ends.
    pub(crate) fn disturb(&self, peers: &[Arc<Peer>]) {
        let peer = &peers[usize::try_from(self.chance.below(peers.len() as u64)).unwrap()];
        match self.chance.below(9) {
            0 | 1 => peer.wire.set(Link::Closed),
            2 => peer.wire.set(Link::Frozen),
            3 => peer.wire.set(Link::Stalled),
            4 => self.server.fill_up(true),
            5 => self.dump.lock().clone_from(&Some(self.server.snapshot())),
            6 => {
                // An old dump, or a replica that lacked the last writes.
                let dump = self.dump.lock().take();
                self.server.replace(&dump.unwrap_or_else(|| self.server.snapshot()), false);
                *self.store.swapped.lock() = Some(Instant::now());
            }
            _ => self.calm(peers),
        }
    }

    /// All that was cut, frozen or full is well again.
    pub(crate) fn calm(&self, peers: &[Arc<Peer>]) {
        self.server.fill_up(false);
        peers.iter().for_each(|peer| peer.wire.set(Link::Up));
    }
}
