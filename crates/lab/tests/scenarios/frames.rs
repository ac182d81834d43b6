use std::{future::Future, pin::Pin, time::Duration};

use kith_cache::{
    Version,
    remote::{Frame, Message, MessageMac, PublishedChange},
};
use kith_lab::{
    peers::{PREFIX, Peers},
    proxy::Tampering,
    resp::Value,
};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::time::sleep;

use crate::stage::{BOUND, assert_fresh, beside, in_memory, readers, size, stage, turn, warm, writes};

/// Writes while what is published is tampered with on the way to each node.
async fn tampered(tampering: Tampering) {
    let (peers, keys) = (stage(3).await, 100);
    warm(&peers, keys).await;
    let readers = readers(&peers, keys);
    peers.nodes.iter().for_each(|node| node.link.tamper(tampering));
    let mut refused = 0;
    for round in 0..size(4, 20) {
        let writer = peers.peer(usize::try_from(round % 3).unwrap());
        refused += writes(writer, 0..keys, Duration::from_millis(500)).await;
    }
    sleep(BOUND).await;
    let (tally, stale) = (readers.end().await, peers.stale(0..keys).await.unwrap());
    let messages: u64 = peers.nodes.iter().map(|node| node.link.tampered()).sum();
    println!("{tampering:?}: {messages} messages met it, {stale} stale after; {tally}");
    assert_eq!((refused, stale), (0, 0));
    assert!(messages > 0);
    assert_fresh(&tally);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_repeated_held_back_or_lost_leave_nothing_stale() {
    let _turn = turn().await;
    let by = Duration::from_secs(size(1, 5));
    let all = [
        Tampering::Repeat(3),
        Tampering::Reorder(5, by),
        Tampering::Lose(4),
        // All of them: probes show what was not received.
        Tampering::Lose(1),
    ];
    beside(all.map(|tampering| -> Pin<Box<dyn Future<Output = ()>>> { Box::pin(tampered(tampering)) })).await;
}

/// The channels that nodes listen to.
async fn channels(peers: &Peers) -> Vec<String> {
    let answer = peers.redis.ask(&["PUBSUB", "CHANNELS"]).await.unwrap();
    let Value::List(names) = answer else { unreachable!("{answer:?}") };
    names.iter().filter_map(Value::text).collect()
}

/// What is no message, of all lengths.
async fn junk(peers: &Peers, channels: &[String]) {
    let mut random = SmallRng::seed_from_u64(1);
    for number in 0..size(300, 3_000) {
        let length = random.random_range(0..if number % 50 == 0 { 100_000 } else { 100 });
        let junk: Vec<u8> = (0..length).map(|_| random.random()).collect();
        let channel = channels[random.random_range(0..channels.len())].as_bytes();
        peers.redis.ask(&[&b"PUBLISH"[..], channel, &junk]).await.unwrap();
    }
}

/// A message that continues the log: only the missing authentication shows that no node has sent it.
async fn forged(peers: &Peers, epoch: u64) -> Vec<u8> {
    let log = format!("{{{PREFIX}:{:016x}}}:log:{epoch}", 0);
    let last = peers.redis.ask(&["XREVRANGE", log.as_str(), "+", "-", "COUNT", "1"]).await.unwrap();
    let entry = texts(&last).pop().unwrap();
    let last = Frame::logged(peers.peer(0).node().applied(), &entry).unwrap();
    let change = PublishedChange { namespace: "thing", key: "5", version: Some(Version::new(1_000_000)) };
    let message = Message { origin: 1, strict: false, sent_ms: 0, changes: vec![change] };
    // A seal of another key.
    let message = MessageMac::new(&[8; 32]).close(77, &message.encode().unwrap());
    Frame { number: last.number + 1, nonce: 77, before: last.nonce, message }.to_bytes()
}

/// All texts of an answer, in order.
fn texts(value: &Value) -> Vec<Vec<u8>> {
    match value {
        Value::Text(bytes) => vec![bytes.clone()],
        Value::List(parts) | Value::Push(parts) => parts.iter().flat_map(texts).collect(),
        Value::Error(_) | Value::Number(_) | Value::None => Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_outsiders_change_nothing() {
    let _turn = turn().await;
    let (peers, keys) = (stage(2).await, 100);
    warm(&peers, keys).await;
    let (channels, epoch) = (channels(&peers).await, peers.store.epoch());
    let state = || {
        let node = peers.peer(1);
        (in_memory(node, keys), node.node().applied(), node.node().trusted(), peers.store.epoch())
    };
    let before = state();
    junk(&peers, &channels).await;
    let forged = forged(&peers, epoch).await;
    for channel in channels.iter().map(String::as_bytes) {
        peers.redis.ask(&[&b"PUBLISH"[..], channel, &forged]).await.unwrap();
    }
    sleep(Duration::from_millis(500)).await;
    assert_eq!(state(), before, "copies, entries applied, trust, epoch");
    let refused = writes(peers.peer(0), 0..keys, Duration::from_millis(500)).await;
    sleep(Duration::from_millis(500)).await;
    let stale = peers.stale(0..keys).await.unwrap();
    println!("junk and forged messages on {} channels: nothing changed, {stale} stale", channels.len());
    assert_eq!((refused, stale), (0, 0));
}
