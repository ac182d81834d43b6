//! Nodes over one shared server.

use std::{fmt, sync::Arc, time::Duration};

use kith_cache::{
    Consistency, ListEpoch, Node, NodeConfig, Tier, Token,
    remote::{
        Acquired, Alive, Cell, Cells, Changed, Codec, Confirmed, Entry, Epochs, FakeServer, Filled,
        Following, Frame, Frames, Header, Kept, Log, Member, Order, Peer as PeerOf, Probed, Queue, Registry,
        Seal, SharedBus, SharedError, Sharing, Standing, UNTOLD, Wakes, address,
    },
};
use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle};

use crate::stage::{FIRST, List, Store, policies, until};

/// Where calls wait while it is closed.
#[derive(Clone)]
struct Door(Arc<watch::Sender<bool>>, Arc<Mutex<usize>>);

impl Door {
    fn open() -> Self {
        Self(Arc::new(watch::Sender::new(true)), Arc::default())
    }

    fn set(&self, open: bool) {
        self.0.send_replace(open);
    }

    /// How many have come so far.
    fn came(&self) -> usize {
        *self.1.lock()
    }

    async fn pass(&self) {
        *self.1.lock() += 1;
        self.0.subscribe().wait_for(|open| *open).await.unwrap();
    }
}

/// A connection to the server whose changes wait on their way there and whose reads wait on their way back.
#[derive(Clone)]
struct Wire {
    server: FakeServer,
    changes: Door,
    reads: Door,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl Cells for Wire {
    async fn read(&self, keys: &[String]) -> Result<Vec<Option<Cell>>, SharedError> {
        let answer = self.server.read(keys).await;
        self.reads.pass().await;
        answer
    }

    async fn heads(&self, keys: &[String]) -> Result<Vec<Option<Header>>, SharedError> {
        self.server.heads(keys).await
    }

    async fn acquire(&self, keys: &[String], token: u64) -> Result<Vec<Acquired>, SharedError> {
        self.server.acquire(keys, token).await
    }

    async fn fill(&self, cells: &[(String, Cell)]) -> Result<Vec<Filled>, SharedError> {
        self.server.fill(cells).await
    }

    async fn release(&self, keys: &[String], token: u64) -> Result<(), SharedError> {
        self.server.release(keys, token).await
    }
}

#[async_trait::async_trait]
impl Log for Wire {
    async fn change(
        &self,
        epoch: u64,
        orders: &[(String, Order)],
        entry: Entry<'_>,
    ) -> Result<Changed, SharedError> {
        self.changes.pass().await;
        self.server.change(epoch, orders, entry).await
    }

    async fn replay(&self, epoch: u64, from: u64, most: usize) -> Result<Vec<Frame>, SharedError> {
        self.server.replay(epoch, from, most).await
    }

    async fn subscribe(&self, epoch: u64, node: u64) -> Result<Box<dyn Frames>, SharedError> {
        self.server.subscribe(epoch, node).await
    }

    async fn confirm(&self, epoch: u64, to: u64, confirmed: Confirmed) -> Result<(), SharedError> {
        self.server.confirm(epoch, to, confirmed).await
    }
}

#[async_trait::async_trait]
impl Registry for Wire {
    async fn probe(&self, epoch: u64, alive: &Alive) -> Result<Probed, SharedError> {
        self.server.probe(epoch, alive).await
    }

    async fn peers(&self, epoch: u64) -> Result<Vec<PeerOf>, SharedError> {
        self.server.peers(epoch).await
    }

    async fn leave(&self, epoch: u64, node: u64) -> Result<(), SharedError> {
        self.server.leave(epoch, node).await
    }

    fn accept(&self, server: &str) {
        self.server.accept(server);
    }
}

/// One epoch for ever.
#[derive(Debug)]
struct Still;

#[async_trait::async_trait]
impl Epochs for Still {
    async fn current(&self) -> Result<(u64, String), SharedError> {
        Ok((1, "0".to_owned()))
    }

    async fn raise(&self, _seen: u64, _server: &str) -> Result<u64, SharedError> {
        Err(SharedError::Unexpected)
    }
}

#[derive(Debug)]
struct Number;

impl Codec<u64> for Number {
    fn schema(&self) -> u16 {
        1
    }

    fn encode(&self, number: &u64) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<u64> {
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    }
}

struct Peer {
    node: Node,
    list: List,
    wire: Wire,
    queue: Arc<Queue>,
    bus: Arc<SharedBus>,
    tasks: Vec<JoinHandle<()>>,
}

impl Peer {
    /// A node that trusts its memory and hears nothing.
    fn new(server: &FakeServer, store: &Arc<Store>) -> Self {
        let wire = Wire { server: server.clone(), changes: Door::open(), reads: Door::open() };
        let (shared, queue) = (Arc::new(wire.clone()), Arc::new(Queue::new(100)));
        let bus = Arc::new(SharedBus {
            id: 1,
            shared: Arc::<Wire>::clone(&shared),
            queue: Arc::clone(&queue),
            epochs: Arc::new(Still),
            seal: Seal::new(&[7; 32]),
            standing: standing(),
            bound: Duration::from_secs(60),
        });
        let node = Node::new(NodeConfig { bus: Arc::<SharedBus>::clone(&bus), ..NodeConfig::local(1) });
        let sharing = Sharing {
            shared,
            queue: Arc::clone(&queue),
            wakes: Arc::<Wakes>::default(),
            patience: Duration::from_millis(500),
        };
        let loader = Arc::<Store>::clone(store);
        let list = List::shared(&node, policies(), loader, &sharing, Arc::new(Number));
        Self { node, list, wire, queue, bus, tasks: Vec::new() }
    }

    /// The same, that follows the log and tells what waits.
    fn following(id: u64, server: &FakeServer, store: &Arc<Store>) -> Self {
        let mut peer = Self::new(server, store);
        let member = Member {
            node: peer.node.clone(),
            id,
            shared: Arc::new(peer.wire.clone()),
            epochs: Arc::new(Still),
            about: String::new(),
            queue: Arc::clone(&peer.queue),
            wakes: Arc::default(),
            standing: standing(),
            seal: Seal::new(&[7; 32]),
            recent: Arc::default(),
            tally: Arc::default(),
            following: Following::default(),
            random: Arc::new(kith_cache::ThreadRandom),
        };
        let (bus, node) = (Arc::clone(&peer.bus), peer.node.clone());
        peer.tasks.push(tokio::spawn(async move { member.follow().await }));
        peer.tasks.push(tokio::spawn(async move { bus.drain(&node).await }));
        peer
    }

    /// Items of the first page, the tier that gave them and the epoch they are of.
    async fn first(&self) -> (Vec<u64>, Tier, Option<ListEpoch>) {
        let paged = self.list.page(&1, &FIRST, &Consistency::Cached).await.unwrap();
        (paged.entry.value.items.clone(), paged.entry.tier, paged.epoch)
    }

    async fn items(&self) -> Vec<u64> {
        self.first().await.0
    }

    async fn remove(&self, store: &Store, item: u64) -> Token {
        let write = self.list.begin_write(&[1]).await;
        store.remove(1, item);
        write.committed().await.unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn standing() -> Arc<Standing> {
    Arc::new(Standing::new(Duration::from_millis(1_500)))
}

fn server_and_store() -> (FakeServer, Arc<Store>) {
    let store = Arc::new(Store::default());
    store.set(1, 1..=7);
    (FakeServer::new(Kept::default()), store)
}

/// Time until changes have reached every node that hears.
const HEARD: Duration = Duration::from_secs(1);

#[tokio::test]
async fn all_nodes_have_one_epoch_and_one_load_is_enough_for_them() {
    let (server, store) = server_and_store();
    let peers: Vec<Peer> = (0..4).map(|_| Peer::new(&server, &store)).collect();
    let (_, tier, epoch) = peers[0].first().await;
    assert_eq!(tier, Tier::Store);
    for peer in &peers[1..] {
        assert_eq!(peer.first().await, (vec![1, 2, 3], Tier::Redis, epoch));
        assert_eq!(peer.first().await.1, Tier::Memory);
    }
    assert_eq!(store.loads(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_on_one_node_is_seen_on_it_at_once_and_on_others_when_they_are_told() {
    let (server, store) = server_and_store();
    let (a, b) = (Peer::following(1, &server, &store), Peer::following(2, &server, &store));
    tokio::time::sleep(HEARD).await;
    assert_eq!((a.items().await, b.items().await), (vec![1, 2, 3], vec![1, 2, 3]));
    let token = a.remove(&store, 2).await;
    assert_eq!(a.items().await, [1, 3, 4]);
    let with = Consistency::AtLeast(vec![token]);
    assert_eq!(b.list.page(&1, &FIRST, &with).await.unwrap().entry.value.items, [1, 3, 4]);
    tokio::time::sleep(HEARD).await;
    assert_eq!(b.items().await, [1, 3, 4]);
    assert_eq!(b.first().await.2, a.first().await.2, "they agree on the new epoch too");
}

#[tokio::test]
async fn an_epoch_that_was_read_before_the_telling_does_not_come_back_after_it() {
    let (server, store) = server_and_store();
    let a = Peer::new(&server, &store);
    assert_eq!(a.items().await, [1, 2, 3]);
    let write = a.list.begin_write(&[1]).await;
    store.remove(1, 2);
    a.wire.changes.set(false);
    let telling = tokio::spawn(write.committed());
    until(|| a.wire.changes.came() == 1).await;
    // The shared copy of the epoch is read while the change is on its way to it.
    a.wire.reads.set(false);
    let list = a.list.clone();
    let before = a.wire.reads.came();
    let late = tokio::spawn(async move { list.page(&1, &FIRST, &Consistency::Cached).await.unwrap() });
    until(|| a.wire.reads.came() > before).await;
    a.wire.changes.set(true);
    telling.await.unwrap().unwrap();
    a.wire.reads.set(true);
    late.await.unwrap();
    assert_eq!(a.items().await, [1, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_epoch_makes_nodes_disagree_and_a_change_makes_all_of_them_right() {
    let (server, store) = server_and_store();
    let (a, b) = (Peer::following(1, &server, &store), Peer::following(2, &server, &store));
    tokio::time::sleep(HEARD).await;
    let before = a.first().await.2;
    server.evict(&address(1, "things_epoch", &1));
    assert_ne!(b.first().await.2, before, "another name, never an old one");
    assert_eq!(a.first().await.2, before);
    b.remove(&store, 2).await;
    tokio::time::sleep(HEARD).await;
    assert_eq!((a.items().await, b.items().await), (vec![1, 3, 4], vec![1, 3, 4]));
    assert_eq!(a.first().await.2, b.first().await.2);
}

#[tokio::test(start_paused = true)]
async fn while_the_server_takes_no_writes_changes_are_seen_where_they_were_made_and_later_everywhere() {
    let (server, store) = server_and_store();
    let (a, b) = (Peer::following(1, &server, &store), Peer::following(2, &server, &store));
    tokio::time::sleep(HEARD).await;
    assert_eq!((a.items().await, b.items().await), (vec![1, 2, 3], vec![1, 2, 3]));
    server.fill_up(true);
    assert_eq!(a.remove(&store, 2).await.positions()[0].number, UNTOLD);
    assert_eq!(a.items().await, [1, 3, 4], "its own copy in the server is old, and not believed");
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.fill_up(false);
    tokio::time::sleep(2 * HEARD).await;
    assert_eq!((a.items().await, b.items().await), (vec![1, 3, 4], vec![1, 3, 4]));
    assert!(a.queue.is_empty());
}
