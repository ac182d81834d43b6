//! Nodes over one shared server.

use std::{sync::Arc, time::Duration};

use kith_cache::{
    Consistency, ListEpoch, Tier, Token, UNPUBLISHED,
    remote::{FakeServer, Retention, address},
};

use crate::{
    peer::Peer,
    stage::{FIRST, Store},
    until::until,
    wire::{Door, Wire},
};

impl Peer {
    /// The first page's items, the tier that gave them and their epoch.
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

fn server_and_store() -> (FakeServer, Arc<Store>) {
    let store = Arc::new(Store::default());
    store.set(1, 1..=7);
    (FakeServer::new(Retention::default()), store)
}

fn wire(server: &FakeServer) -> Wire {
    Wire { server: server.clone(), changes: Door::open(), reads: Door::open(), chance: None }
}

fn peer(server: &FakeServer, store: &Arc<Store>) -> Peer {
    Peer::new(1, wire(server), Arc::<Store>::clone(store) as _)
}

/// Two nodes that follow the log by now.
async fn two_followers() -> (FakeServer, Arc<Store>, Peer, Peer) {
    let (server, store) = server_and_store();
    let following = |id| Peer::following(id, wire(&server), Arc::<Store>::clone(&store) as _);
    let (a, b) = (following(1), following(2));
    tokio::time::sleep(PROPAGATION_TIME).await;
    (server, store, a, b)
}

/// Time until changes have reached every node that follows the log.
const PROPAGATION_TIME: Duration = Duration::from_secs(1);

#[tokio::test]
async fn nodes_share_one_epoch_and_one_load() {
    let (server, store) = server_and_store();
    let peers: Vec<Peer> = (0..4).map(|_| peer(&server, &store)).collect();
    let (_, tier, epoch) = peers[0].first().await;
    assert_eq!(tier, Tier::Store);
    for peer in &peers[1..] {
        assert_eq!(peer.first().await, (vec![1, 2, 3], Tier::Redis, epoch));
        assert_eq!(peer.first().await.1, Tier::Memory);
    }
    assert_eq!(store.loads(), 1);
}

#[tokio::test(start_paused = true)]
async fn list_change_reaches_other_nodes() {
    let (_server, store, a, b) = two_followers().await;
    assert_eq!((a.items().await, b.items().await), (vec![1, 2, 3], vec![1, 2, 3]));
    let token = a.remove(&store, 2).await;
    assert_eq!(a.items().await, [1, 3, 4]);
    let with = Consistency::AtLeast(vec![token]);
    assert_eq!(b.list.page(&1, &FIRST, &with).await.unwrap().entry.value.items, [1, 3, 4]);
    tokio::time::sleep(PROPAGATION_TIME).await;
    assert_eq!(b.items().await, [1, 3, 4]);
    assert_eq!(b.first().await.2, a.first().await.2, "they agree on the new epoch too");
}

#[tokio::test]
async fn epoch_read_before_publish_is_not_kept() {
    let (server, store) = server_and_store();
    let a = peer(&server, &store);
    assert_eq!(a.items().await, [1, 2, 3]);
    let write = a.list.begin_write(&[1]).await;
    store.remove(1, 2);
    a.wire.changes.set(false);
    let publishing = tokio::spawn(write.committed());
    until(|| a.wire.changes.arrivals() == 1).await;
    // The shared copy of the epoch is read while the change is on its way to it.
    a.wire.reads.set(false);
    let list = a.list.clone();
    let before = a.wire.reads.arrivals();
    let late = tokio::spawn(async move { list.page(&1, &FIRST, &Consistency::Cached).await.unwrap() });
    until(|| a.wire.reads.arrivals() > before).await;
    a.wire.changes.set(true);
    publishing.await.unwrap().unwrap();
    a.wire.reads.set(true);
    late.await.unwrap();
    assert_eq!(a.items().await, [1, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn delayed_epoch_is_dropped_after_a_change() {
    let (_server, store, a, b) = two_followers().await;
    assert_eq!(a.items().await, [1, 2, 3]);
    b.wire.reads.set(false);
    let list = b.list.clone();
    let late = tokio::spawn(async move { list.page(&1, &FIRST, &Consistency::Cached).await.unwrap() });
    until(|| b.wire.reads.arrivals() == 1).await;
    a.remove(&store, 2).await;
    until(|| b.node.applied() == a.node.applied() && a.node.applied() == 1).await;
    b.wire.reads.set(true);
    assert_eq!(late.await.unwrap().entry.value.items, [1, 3, 4], "the change came while it loaded");
    assert_eq!(b.items().await, [1, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn change_repairs_an_evicted_epoch() {
    let (server, store, a, b) = two_followers().await;
    let before = a.first().await.2;
    server.evict(&address(1, "things_epoch", &1));
    assert_ne!(b.first().await.2, before, "another name, never an old one");
    assert_eq!(a.first().await.2, before);
    b.remove(&store, 2).await;
    tokio::time::sleep(PROPAGATION_TIME).await;
    assert_eq!((a.items().await, b.items().await), (vec![1, 3, 4], vec![1, 3, 4]));
    assert_eq!(a.first().await.2, b.first().await.2);
}

#[tokio::test(start_paused = true)]
async fn read_only_server_delays_other_nodes_only() {
    let (server, store, a, b) = two_followers().await;
    assert_eq!((a.items().await, b.items().await), (vec![1, 2, 3], vec![1, 2, 3]));
    server.refuse_writes(true);
    assert_eq!(a.remove(&store, 2).await.positions()[0].number, UNPUBLISHED);
    assert_eq!(a.items().await, [1, 3, 4], "its own copy in the server is old, and not believed");
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.refuse_writes(false);
    tokio::time::sleep(2 * PROPAGATION_TIME).await;
    assert_eq!((a.items().await, b.items().await), (vec![1, 3, 4], vec![1, 3, 4]));
    assert!(a.bus.sharing.queue.is_empty());
}
