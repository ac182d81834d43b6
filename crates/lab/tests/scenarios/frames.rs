use std::time::Duration;

use kith_lab::{peers::Peers, proxy::Tampering, resp::Value};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::time::sleep;

use crate::stage::{BOUND, assert_in_bounds, readers, size, stage, turn, warm, writes};

/// Writes while what is published is tampered with on all nodes. Returns how many messages were, and how often
/// the store was read.
async fn tampered(tampering: Tampering) -> (u64, u64) {
    let (peers, keys) = (stage(3).await, 100);
    warm(&peers, keys).await;
    let readers = readers(&peers, keys);
    let cold = peers.store.loads();
    peers.nodes.iter().for_each(|node| node.link.tamper(tampering));
    let mut refused = 0;
    for round in 0..size(4, 20) {
        let writer = peers.peer(usize::try_from(round % 3).unwrap());
        refused += writes(writer, 0..keys, Duration::from_millis(500)).await.refused;
    }
    sleep(BOUND).await;
    let (tally, stale) = (readers.end().await, peers.stale(0..keys).await.unwrap());
    let messages = peers.nodes.iter().map(|node| node.link.tampered()).sum();
    println!("{tampering:?}: {messages} messages met it, {stale} stale after; {tally}");
    assert_eq!((refused, stale), (0, 0));
    assert_in_bounds(&tally);
    (messages, peers.store.loads() - cold)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_come_three_times_do_nothing_more() {
    let _turn = turn().await;
    assert!(tampered(Tampering::Repeat(3)).await.0 > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_overtake_each_other_leave_nothing_stale() {
    let _turn = turn().await;
    let by = Duration::from_secs(size(1, 5));
    assert!(tampered(Tampering::Reorder(5, by)).await.0 > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_are_lost_are_read_from_the_log() {
    let _turn = turn().await;
    assert!(tampered(Tampering::Lose(4)).await.0 > 0);
    assert!(tampered(Tampering::Lose(1)).await.0 > 0, "all of them");
}

/// The channels that nodes listen to.
async fn channels(peers: &Peers) -> Vec<String> {
    let answer = peers.redis.ask(&["PUBSUB", "CHANNELS"]).await.unwrap();
    let Value::List(names) = answer else { unreachable!("{answer:?}") };
    names.iter().filter_map(Value::text).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_outsiders_change_nothing() {
    let _turn = turn().await;
    let (peers, keys) = (stage(2).await, 100);
    warm(&peers, keys).await;
    let (channels, mut random) = (channels(&peers).await, SmallRng::seed_from_u64(1));
    assert!(!channels.is_empty());
    let epoch = peers.store.epoch();
    for number in 0..size(300, 3_000) {
        let length = random.random_range(0..if number % 50 == 0 { 100_000 } else { 100 });
        let junk: String = (0..length).map(|_| char::from(random.random_range(0..0x7F_u8))).collect();
        let channel = &channels[random.random_range(0..channels.len())];
        peers.redis.ask(&["PUBLISH", channel, &junk]).await.unwrap();
    }
    let written = writes(peers.peer(0), 0..keys, Duration::from_millis(500)).await;
    sleep(Duration::from_millis(500)).await;
    let stale = peers.stale(0..keys).await.unwrap();
    println!("forged messages on {} channels: {stale} stale, epoch {epoch}", channels.len());
    assert_eq!((written.refused, written.told, stale), (0, keys, 0));
    assert_eq!(peers.store.epoch(), epoch, "an outsider cannot make nodes begin anew");
    peers.until_trusted(Duration::ZERO).await.unwrap();
}
