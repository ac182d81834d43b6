//! Nodes of the real cache over one store and one shared server, in one thread and in virtual time.

use std::{sync::Arc, time::Duration};

use kith_cache::remote::{FakeServer, Retention, Snapshot, address};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    chance::Chance,
    peer::Peer,
    phase::Phase,
    store::Store,
    truth::{Id, Truth},
    weather::{Fault, Weather},
    wire::Link,
};

/// All there is.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) chance: Chance,
    pub(crate) weather: Weather,
    pub(crate) server: FakeServer,
    pub(crate) store: Store,
    pub(crate) began: Instant,
    peers: Mutex<Vec<Arc<Peer>>>,
    next_id: Mutex<u64>,
    /// What the server held at an earlier moment.
    dump: Mutex<Option<Snapshot>>,
}

impl World {
    pub(crate) fn new(chance: Chance, weather: Weather, peers: u64) -> Arc<Self> {
        let mut retention = Retention::default();
        if weather.has(Fault::Trimmed) {
            retention.log_max = 4;
        }
        if weather.has(Fault::Short) {
            retention.copies = Duration::from_secs(1);
            retention.absences = Duration::from_millis(500);
        }
        let world = Arc::new(Self {
            server: FakeServer::new(retention),
            store: Store::new(&Truth::new()),
            chance,
            weather,
            began: Instant::now(),
            peers: Mutex::default(),
            next_id: Mutex::new(0),
            dump: Mutex::default(),
        });
        (0..peers).for_each(|_| drop(world.start()));
        world
    }

    /// This number of joined nodes, for a script: nothing happens at random, and no node reads the change feed.
    pub(crate) async fn script<const N: usize>() -> (Arc<Self>, [Arc<Peer>; N]) {
        Self::scripted(&[Fault::NoFeed]).await
    }

    /// The same with what these faults mean for how nodes are made.
    pub(crate) async fn scripted<const N: usize>(faults: &[Fault]) -> (Arc<Self>, [Arc<Peer>; N]) {
        let world = Self::new(Chance::still(), Weather::with(faults), N as u64);
        pass(300).await;
        let peers = world.peers().try_into().unwrap_or_else(|_| unreachable!("as many as were asked for"));
        (world, peers)
    }

    /// The same with a record that the first node has written and the last one has read.
    pub(crate) async fn holding<const N: usize>(id: Id) -> (Arc<Self>, [Arc<Peer>; N]) {
        let (world, peers) = Self::script::<N>().await;
        peers[0].put(id).await.unwrap();
        peers[N - 1].read(id).await;
        (world, peers)
    }

    /// One node more.
    pub(crate) fn start(&self) -> Arc<Peer> {
        let id = {
            let mut next = self.next_id.lock();
            *next += 1;
            *next
        };
        let peer = Peer::start(self, id);
        self.peers.lock().push(Arc::clone(&peer));
        peer
    }

    pub(crate) fn peers(&self) -> Vec<Arc<Peer>> {
        self.peers.lock().clone()
    }

    pub(crate) fn some_peer(&self) -> Arc<Peer> {
        Arc::clone(self.chance.pick(&self.peers.lock()))
    }

    /// Something happens, or ends.
    pub(crate) fn disturb(&self, id: Id) {
        let peer = self.some_peer();
        let faults = [
            Fault::Links,
            Fault::Stops,
            Fault::Crashes,
            Fault::Full,
            Fault::Dumps,
            Fault::Hidden,
            Fault::Evictions,
            Fault::Raised,
            Fault::FeedLost,
        ];
        let mut faults: Vec<Fault> = faults.into_iter().filter(|fault| self.weather.has(*fault)).collect();
        if faults.is_empty() || self.chance.one_in(4) {
            return self.calm();
        }
        let fault = faults.swap_remove(usize::try_from(self.chance.below(faults.len() as u64)).unwrap());
        crate::trace!("T DISTURB {fault:?} {}", peer.id);
        match fault {
            Fault::Links => peer.wire.set(*self.chance.pick(&[Link::Closed, Link::Frozen, Link::Stalled])),
            Fault::Stops => self.stop(&peer),
            Fault::Crashes => self.crash(&peer),
            Fault::Full => self.server.refuse_writes(true),
            Fault::Dumps => self.dump(false),
            Fault::Hidden => self.dump(true),
            Fault::Evictions => self.evict(id),
            Fault::Raised => peer.queue.raise_barrier(self.store.raise()),
            Fault::FeedLost => self.store.stream.forget(),
            _ => {}
        }
    }

    /// A node pauses, mostly for a moment, otherwise until all faults have ended.
    fn stop(&self, peer: &Peer) {
        peer.phases.set(Phase::Paused);
        if !self.chance.one_in(4) {
            let (phases, moment) = (peer.phases.clone(), self.chance.below(2_500));
            tokio::spawn(async move {
                pass(moment).await;
                phases.set(Phase::Runs);
            });
        }
    }

    /// A node dies, another takes its place.
    pub(crate) fn crash(&self, peer: &Peer) {
        peer.kill();
        self.peers.lock().retain(|other| other.id != peer.id);
        self.start();
    }

    /// Takes a dump, or puts the last one in the place of the server.
    fn dump(&self, hidden: bool) {
        if self.chance.one_in(2) {
            self.keep_dump();
        } else {
            self.put_back(hidden);
        }
    }

    pub(crate) fn keep_dump(&self) {
        *self.dump.lock() = Some(self.server.snapshot());
        self.store.truth.dump();
    }

    /// The server is replaced by its dump.
    pub(crate) fn put_back(&self, hidden: bool) {
        if let Some(dump) = self.dump.lock().take() {
            if hidden && self.weather.has(Fault::Hidden) && self.chance.one_in(2) {
                self.server.fall_back(&dump);
            } else {
                self.server.replace(&dump, hidden);
            }
            self.store.truth.swap(hidden);
        }
    }

    /// The server drops a cell.
    pub(crate) fn evict(&self, id: Id) {
        let (kind, key) = id;
        self.server.evict(&address(self.store.truth.epoch(), kind.name(), &key));
    }

    /// All that was cut, frozen, stopped or full is well again.
    pub(crate) fn calm(&self) {
        crate::trace!("T CALM");
        self.server.refuse_writes(false);
        for peer in self.peers() {
            peer.wire.set(Link::Up);
            peer.phases.set(Phase::Runs);
        }
    }
}

/// So many milliseconds go by.
pub(crate) async fn pass(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}
