//! A node together with a newer node, whose messages and copies it cannot read.

use std::time::Duration;

use kith_cache::{
    Tier, Version,
    remote::{CellWrite, Log as _, LogEntry, Message, MessageMac, PublishedChange, address},
};
use tokio::time::sleep;

use crate::stage::{Peer, Stage};

/// How many records are in the node's memory.
const KEYS: u64 = 3;

/// Acts like a newer node: commits, leaves no copy that this node can read, and publishes the change in its
/// own format.
async fn newer_write(stage: &Stage, node: &Peer, key: u64, version: u64) {
    stage.store.put(key, version);
    let (epoch, name) = (node.node.epoch(), 1_000_000 * key + version);
    let text = key.to_string();
    let change = PublishedChange { namespace: "thing", key: &text, version: Some(Version::new(version)) };
    let mut message = Message { changes: vec![change], ..Message::default() }.encode().unwrap();
    message[0] += 1;
    assert_eq!(Message::decode(&message), None);
    let message = MessageMac::new(&[7; 32]).sign(name, &message);
    let write = (address(epoch, "thing", &text), CellWrite::Invalidate(Some(Version::new(version))));
    let entry = LogEntry { nonce: name, message: &message, strict: false };
    stage.server.change(epoch, std::slice::from_ref(&write), entry).await.unwrap();
    stage.server.evict(&write.0);
}

/// Two nodes with this version; the first node has all records in its memory.
async fn warm() -> (Stage, Peer, Peer) {
    let (stage, one, other) = Stage::with_two_peers().await;
    for key in 0..KEYS {
        stage.store.put(key, 1);
        other.read(key).await;
        assert_eq!(other.read(key).await.1, Some(Tier::Memory));
    }
    (stage, one, other)
}

#[tokio::test(start_paused = true)]
async fn newer_format_flushes_memory() {
    let (stage, one, other) = warm().await;
    let epoch = other.node.epoch();
    newer_write(&stage, &other, 1, 2).await;
    sleep(Duration::from_millis(10)).await;
    assert_eq!(other.read(1).await, (Some(2), Some(Tier::Store)));
    sleep(Duration::from_secs(5)).await;
    assert!(other.node.trusted(), "a message that is not understood ends no trust");
    assert_eq!(other.node.epoch(), epoch, "nor the following");
    assert_eq!(other.read(1).await.1, Some(Tier::Memory));
    one.write(&stage.store, 1, 3).await.unwrap();
    sleep(Duration::from_millis(10)).await;
    assert_eq!(other.read(1).await.0, Some(3), "what it can read is applied as before");
}

#[tokio::test(start_paused = true)]
async fn newer_format_in_a_replay_flushes_memory() {
    let (stage, _one, other) = warm().await;
    stage.server.cut();
    newer_write(&stage, &other, 1, 2).await;
    sleep(Duration::from_secs(1)).await;
    for key in 0..KEYS {
        assert_eq!(other.read(key).await.0, Some(1 + u64::from(key == 1)));
    }
}
