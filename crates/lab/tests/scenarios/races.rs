use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use kith_lab::{
    peers::{Peers, Shape, Store},
    proxy::Mode,
};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::{task::JoinSet, time::sleep};

use crate::stage::{alone, size};

const NODES: usize = 4;
/// How late the store, or an answer of Redis, may come.
const LATE: Duration = Duration::from_millis(30);
/// Races at once.
const AT_ONCE: usize = 32;
/// What is still on its way is heard by then.
const SETTLED: Duration = Duration::from_secs(1);

/// Readers on every node load a key, and one node writes it meanwhile.
async fn race(peers: &Peers, key: u64) {
    let mut random = SmallRng::seed_from_u64(key);
    let mut after = |most: Duration| random.random_range(Duration::ZERO..most);
    let mut calls = JoinSet::new();
    for node in &peers.nodes {
        for _ in 0..3 {
            let (peer, begins) = (Arc::clone(&node.peer), after(LATE * 2));
            calls.spawn(async move {
                sleep(begins).await;
                peer.read(key).await.unwrap();
            });
        }
    }
    let writer = Arc::clone(peers.peer(usize::try_from(key).unwrap() % NODES));
    let begins = after(LATE * 2);
    calls.spawn(async move {
        sleep(begins).await;
        writer.write(key).await.unwrap();
    });
    calls.join_all().await;
}

async fn races(peers: &Peers, count: u64) -> u64 {
    stream::iter(0..count).for_each_concurrent(AT_ONCE, |key| race(peers, key)).await;
    sleep(SETTLED).await;
    peers.stale(0..count).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_a_write_overtook_leaves_nothing_stale() {
    let _turn = alone().await;
    let (store, count) = (Store::new(LATE, 1), size(400, 2_000));
    (0..count).for_each(|key| assert_eq!(store.commit(key), 1));
    let peers = Peers::start(4, &store, &Shape::default()).await.unwrap();
    let stale = races(&peers, count).await;
    println!("refill races, store 0-30 ms late: {stale} of {count} stale, {} loads", store.loads());
    assert_eq!(stale, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_redis_that_a_write_overtook_leaves_nothing_stale() {
    let _turn = alone().await;
    let (store, count) = (Store::new(Duration::ZERO, 1), size(400, 2_000));
    let peers = Peers::start(4, &store, &Shape::default()).await.unwrap();
    // A read of another node brings each into Redis; the memories are emptied then.
    for key in 0..count {
        peers.peer(0).write(key).await.unwrap();
        peers.peer(1).read(key).await.unwrap();
    }
    peers.nodes.iter().for_each(|node| node.peer.node().flush());
    let loads = store.loads();
    peers.nodes.iter().for_each(|node| node.link.set(Mode::Late(Duration::ZERO, LATE)));
    let stale = races(&peers, count).await;
    let more = store.loads() - loads;
    println!("refill races, Redis 0-30 ms late: {stale} of {count} stale, {more} loads");
    assert_eq!(stale, 0);
}
