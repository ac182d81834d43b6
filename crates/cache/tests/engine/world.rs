//! Nodes of the real cache over one store and one shared server, in one thread and in virtual time.

use std::{sync::Arc, time::Duration};

use kith_cache::remote::{FakeServer, Retention, Snapshot, address};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    chance::Chance,
    faults::{Fault, FaultSet},
    peer::Peer,
    phase::Phase,
    store::Store,
    truth::{Id, Truth},
    wire::Link,
};

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) chance: Chance,
    pub(crate) faults: FaultSet,
    pub(crate) server: FakeServer,
    pub(crate) store: Store,
    pub(crate) began: Instant,
    peers: Mutex<Vec<Arc<Peer>>>,
    next_id: Mutex<u64>,
    /// The server's contents at an earlier moment.
    dump: Mutex<Option<Snapshot>>,
}

impl World {
    pub(crate) fn new(chance: Chance, faults: FaultSet, peers: u64) -> Arc<Self> {
        let mut retention = Retention::default();
        if faults.has(Fault::Trimmed) {
            retention.log_max = 4;
        }
        if faults.has(Fault::Short) {
            retention.copies = Duration::from_secs(1);
            retention.absences = Duration::from_millis(500);
        }
        let world = Arc::new(Self {
            server: FakeServer::new(retention),
            store: Store::new(&Truth::new()),
            chance,
            faults,
            began: Instant::now(),
            peers: Mutex::default(),
            next_id: Mutex::new(0),
            dump: Mutex::default(),
        });
        (0..peers).for_each(|_| drop(world.start()));
        world
    }

    /// This number of joined nodes, for a script: nothing happens at random, and no node reads the change
    /// feed.
    pub(crate) async fn scripted<const N: usize>() -> (Arc<Self>, [Arc<Peer>; N]) {
        Self::scripted_with(&[Fault::NoFeed]).await
    }

    /// Like `scripted`, with nodes that are made for these faults.
    pub(crate) async fn scripted_with<const N: usize>(faults: &[Fault]) -> (Arc<Self>, [Arc<Peer>; N]) {
        let world = Self::new(Chance::without_delays(), FaultSet::with(faults), N as u64);
        sleep_ms(300).await;
        let peers = world.peers().try_into().unwrap_or_else(|_| unreachable!("as many as were asked for"));
        (world, peers)
    }

    /// Like `scripted`, with a record that the first node has written and the last node has read.
    pub(crate) async fn with_cached<const N: usize>(id: Id) -> (Arc<Self>, [Arc<Peer>; N]) {
        let (world, peers) = Self::scripted::<N>().await;
        peers[0].put(id).await.unwrap();
        peers[N - 1].read(id).await;
        (world, peers)
    }

    /// Starts another node.
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
        let mut faults: Vec<Fault> = faults.into_iter().filter(|fault| self.faults.has(*fault)).collect();
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
            Fault::Dumps => self.take_or_restore_dump(false),
            Fault::Hidden => self.take_or_restore_dump(true),
            Fault::Evictions => self.evict(id),
            Fault::Raised => peer.queue.raise_barrier(self.store.raise()),
            Fault::FeedLost if self.chance.one_in(2) => self.store.stream.forget(),
            Fault::FeedLost => self.store.stream.drop_collection(),
            _ => {}
        }
    }

    /// A node pauses, mostly for a moment, otherwise until all faults have ended.
    fn stop(&self, peer: &Peer) {
        peer.phases.set(Phase::Paused);
        if !self.chance.one_in(4) {
            let (phases, moment) = (peer.phases.clone(), self.chance.below(2_500));
            tokio::spawn(async move {
                sleep_ms(moment).await;
                phases.set(Phase::Runs);
            });
        }
    }

    /// A node dies, another replaces it.
    pub(crate) fn crash(&self, peer: &Peer) {
        peer.kill();
        self.peers.lock().retain(|other| other.id != peer.id);
        self.start();
    }

    /// Takes a dump, or replaces the server by the last dump.
    fn take_or_restore_dump(&self, hidden: bool) {
        if self.chance.one_in(2) {
            self.take_dump();
        } else {
            self.restore_dump(hidden);
        }
    }

    pub(crate) fn take_dump(&self) {
        *self.dump.lock() = Some(self.server.snapshot());
        self.store.truth.dump_taken();
    }

    /// The server is replaced by its dump.
    pub(crate) fn restore_dump(&self, hidden: bool) {
        if let Some(dump) = self.dump.lock().take() {
            if hidden && self.faults.has(Fault::Hidden) && self.chance.one_in(2) {
                self.server.fall_back(&dump);
            } else {
                self.server.replace(&dump, hidden);
            }
            self.store.truth.server_replaced(hidden);
        }
    }

    /// The server drops a cell.
    pub(crate) fn evict(&self, id: Id) {
        let (kind, key) = id;
        self.server.evict(&address(self.store.truth.epoch(), kind.name(), &key));
    }

    /// Ends every fault: links that were cut or frozen, nodes that were stopped, a server that was full.
    pub(crate) fn calm(&self) {
        crate::trace!("T CALM");
        self.server.refuse_writes(false);
        for peer in self.peers() {
            peer.wire.set(Link::Up);
            peer.phases.set(Phase::Runs);
        }
    }
}

/// Lets this many milliseconds of virtual time pass.
pub(crate) async fn sleep_ms(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}
