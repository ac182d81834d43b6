use std::{sync::Arc, time::Duration};

use kith_cache::Policy;
use kith_lab::{
    peers::{Peer, Peers, Shape, Store},
    proxy::Mode,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::stage::{
    BOUND, FAULT, alone, as_fast_as_possible, in_memory, is_full, size, stage, told, until, warm, writes,
};

const SOON: Duration = Duration::from_secs(10);

/// Messages on their way at once.
const SENDERS: usize = 8;

/// Waits until the second node has applied so many entries of the log.
async fn applied(peers: &Peers, last: u64) {
    until("it is applied", SOON, async || peers.peer(1).node().applied() >= last).await;
}

/// So many messages of all keys, at that rate.
async fn messages(peer: &Arc<Peer>, keys: u64, count: u32, rate: u32) {
    let (began, mut calls) = (Instant::now(), JoinSet::new());
    for message in 0..count {
        sleep_until(began + Duration::from_secs(1) * message / rate).await;
        if calls.len() >= SENDERS {
            calls.join_next().await.unwrap().unwrap();
        }
        let cache = peer.records().cache().clone();
        let changes: Vec<_> = (0..keys).map(|key| (key, None)).collect();
        calls.spawn(async move { drop(cache.invalidate(&changes).await.unwrap()) });
    }
    calls.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_messages_is_applied_whole() {
    const KEYS: u64 = 100;
    let _turn = alone().await;
    let (peers, seconds, rate) = (stage(2).await, size(2, 10), size(200, 1_000));
    warm(&peers, KEYS).await;
    let (before, began, count) = (peers.peer(1).node().applied(), Instant::now(), seconds * rate);
    let (count_u32, rate) = (u32::try_from(count).unwrap(), u32::try_from(rate).unwrap());
    messages(peers.peer(0), KEYS, count_u32, rate).await;
    let took = began.elapsed();
    applied(&peers, before + count).await;
    let (applied, stale) = (peers.peer(1).node().applied() - before, peers.stale(0..KEYS).await.unwrap());
    // One whose answer came late is published again.
    println!("{count} messages of {KEYS} keys in {took:.1?}: {applied} applied, {stale} stale");
    assert_eq!(stale, 0);
    assert!(peers.peer(1).node().trusted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_keys_as_fast_as_redis_takes_them_are_applied_whole() {
    let _turn = alone().await;
    let (peers, keys) = (stage(2).await, size(5_000, 100_000));
    let (before, began) = (peers.peer(1).node().applied(), Instant::now());
    let at_once = as_fast_as_possible(peers.peer(0), keys).await;
    let took = began.elapsed();
    told(peers.peer(0)).await;
    applied(&peers, before + at_once).await;
    let applied = peers.peer(1).node().applied() - before;
    let stale = peers.stale(0..keys).await.unwrap();
    println!(
        "{keys} single writes in {took:.1?}: {at_once} told at once, {applied} messages applied, {stale} stale"
    );
    assert_eq!(stale, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_cut_node_missed_is_read_from_the_log_and_the_rest_stays_in_memory() {
    let _turn = alone().await;
    let (keys, changed, rounds) = (size(10_000, 100_000), size(200, 1_000), 10);
    let store = Store::new(Duration::ZERO, 7);
    (0..keys).for_each(|key| assert_eq!(store.commit(key), 1));
    // Nothing runs out by itself meanwhile.
    let shape = Shape::default();
    let policy = Policy { ttl: Duration::from_secs(3_600), ..shape.policy };
    let peers = Peers::start(2, &store, &Shape { policy, ..shape }).await.unwrap();
    assert_eq!(peers.stale(0..keys).await.unwrap(), 0, "both have read them all");
    let before = in_memory(peers.peer(1), keys);
    peers.nodes[1].link.set(Mode::Refuse);
    for _ in 0..rounds {
        assert_eq!(writes(peers.peer(0), 0..changed, FAULT / rounds).await, 0);
    }
    told(peers.peer(0)).await;
    // The writer has heard the last of its own by then.
    sleep(Duration::from_millis(200)).await;
    let (last, missed) = (peers.peer(0).node().applied(), peers.peer(1).node().applied());
    peers.heal();
    let healed = Instant::now();
    applied(&peers, missed + 1).await;
    let connected = Instant::now();
    applied(&peers, last).await;
    let (replay, all) = (connected.elapsed(), healed.elapsed());
    assert!(peers.peer(1).until_trusted(SOON).await);
    let after = in_memory(peers.peer(1), keys);
    let (writes, stale) = (changed * u64::from(rounds), peers.stale(0..changed).await.unwrap());
    println!(
        "cut 5 s, {writes} writes over {changed} of {keys} keys: replayed in {replay:.1?}, {all:.1?} after it could connect, {after} of {before} in memory, {stale} stale"
    );
    assert_eq!(stale, 0);
    assert!(!is_full() || replay <= Duration::from_millis(500) && all <= BOUND, "{replay:?}, {all:?}");
    assert!(before * 100 >= keys * 90 && after * 100 >= before * 95, "{after} of {before}");
}
