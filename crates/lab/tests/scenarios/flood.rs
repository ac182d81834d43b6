use std::time::Duration;

use kith_cache::Tier;
use kith_lab::{
    peers::{Peer, Peers},
    proxy::Mode,
};
use tokio::time::{Instant, sleep, sleep_until};

use crate::stage::{FAULT, alone, size, stage, until, warm, writes};

const SOON: Duration = Duration::from_secs(10);

/// Waits until the second node has applied all that the first was told.
async fn caught_up(peers: &Peers) {
    let last = peers.peer(0).node().applied();
    until("all is applied", SOON, async || peers.peer(1).node().applied() >= last).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_messages_is_applied_whole() {
    const KEYS: u64 = 100;
    let _turn = alone().await;
    let (peers, seconds, rate) = (stage(2).await, size(2, 10), size(200, 1_000));
    warm(&peers, KEYS).await;
    let (before, began) = (peers.peer(1).node().applied(), Instant::now());
    let cache = peers.peer(0).records().cache();
    for message in 0..u32::try_from(seconds * rate).unwrap() {
        sleep_until(began + Duration::from_secs(1) * message / u32::try_from(rate).unwrap()).await;
        let changes: Vec<_> = (0..KEYS).map(|key| (key, None)).collect();
        cache.invalidate(&changes).await.unwrap();
    }
    let took = began.elapsed();
    caught_up(&peers).await;
    let (applied, stale) = (peers.peer(1).node().applied() - before, peers.stale(0..KEYS).await.unwrap());
    println!("{} messages of {KEYS} keys in {took:.1?}: {applied} applied, {stale} stale", seconds * rate);
    assert_eq!((applied, stale), (seconds * rate, 0));
    assert!(peers.peer(1).node().trusted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_keys_as_fast_as_redis_takes_them_are_applied_whole() {
    let _turn = alone().await;
    let (peers, count) = (stage(2).await, size(3_000, 100_000));
    let (before, began) = (peers.peer(1).node().applied(), Instant::now());
    let written = writes(peers.peer(0), 0..count, Duration::ZERO).await;
    let took = began.elapsed();
    assert_eq!(written.refused, 0);
    caught_up(&peers).await;
    let (applied, stale) = (peers.peer(1).node().applied() - before, peers.stale(0..count).await.unwrap());
    println!(
        "{count} single writes in {took:.1?}: {} told at once, {applied} applied, {stale} stale",
        written.told
    );
    assert_eq!(stale, 0);
}

/// How many of the keys memory answers.
async fn from_memory(peer: &Peer, keys: u64) -> u64 {
    let mut hits = 0;
    for key in 0..keys {
        let (_, tier) = peer.records().read_from(key).await.unwrap();
        hits += u64::from(tier == Tier::Memory);
    }
    hits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_cut_node_missed_is_read_from_the_log_and_the_rest_stays_in_memory() {
    let _turn = alone().await;
    let (peers, keys, changed) = (stage(2).await, size(5_000, 100_000), size(200, 1_000));
    let rounds = size(5, 10);
    for at in [0, 1] {
        from_memory(peers.peer(at), keys).await;
    }
    let before = from_memory(peers.peer(1), keys).await;
    peers.nodes[1].link.set(Mode::Refuse);
    for _ in 0..rounds {
        let each = FAULT / u32::try_from(rounds).unwrap();
        assert_eq!(writes(peers.peer(0), 0..changed, each).await.refused, 0);
    }
    let accepted = peers.nodes[1].link.accepted();
    peers.heal();
    until("it connects", SOON, async || peers.nodes[1].link.accepted() > accepted).await;
    let began = Instant::now();
    caught_up(&peers).await;
    let took = began.elapsed();
    assert!(peers.peer(1).until_trusted(SOON).await);
    let (after, stale) = (from_memory(peers.peer(1), keys).await, peers.stale(0..changed).await.unwrap());
    println!(
        "cut 5 s, {} writes over {changed} of {keys} keys: replay {took:.1?}, {after} of {before} hits, {stale} stale",
        rounds * changed
    );
    assert_eq!(stale, 0);
    assert!(took <= Duration::from_millis(500), "{took:?}");
    assert!(after * 100 >= before * 95, "{after} of {before}");
    sleep(Duration::ZERO).await;
}
