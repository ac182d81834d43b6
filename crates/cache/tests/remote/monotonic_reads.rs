//! Reads of one node are monotonic, and a change that a server may have lost does not count as published.

use std::{sync::Arc, time::Duration};

use kith_cache::{Change, Policy, Tier, UNPUBLISHED, Version, remote::Epochs as _};
use tokio::time::sleep;

use crate::stage::{Peer, Stage};

/// Two nodes that have read the first version, which the server holds.
async fn read_once() -> (Stage, Peer, Peer) {
    let (stage, one, other) = Stage::with_two_peers().await;
    stage.store.put(7, 1);
    assert_eq!((one.read(7).await.0, other.read(7).await.0), (Some(1), Some(1)));
    (stage, one, other)
}

#[tokio::test(start_paused = true)]
async fn read_during_write_is_not_undone() {
    let (stage, one, other) = read_once().await;
    let third = stage.peer(3, false).await;
    // Node `one` does not receive the change that `other` publishes.
    one.die();
    let guard = one.cache.begin_write(&[7]).await;
    stage.store.put(7, 2);
    other.write(&stage.store, 7, 3).await.unwrap();
    assert_eq!(third.read(7).await.0, Some(3), "it leaves a copy");
    assert_eq!(one.read(7).await, (Some(3), Some(Tier::Redis)));
    let change = Change::Put { value: Arc::new(2), version: Version::new(2) };
    guard.committed(vec![(7, change)]).await.unwrap();
    assert_eq!(one.read(7).await.0, Some(3));
}

/// A node that has the second version in memory, while the server holds the first.
async fn ahead() -> (Stage, Peer) {
    let (stage, one, other) = read_once().await;
    let earlier = stage.server.snapshot();
    other.write(&stage.store, 7, 2).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(one.read(7).await, (Some(2), Some(Tier::Redis)));
    stage.server.fall_back(&earlier);
    (stage, one)
}

#[tokio::test(start_paused = true)]
async fn version_before_a_write_is_known_during_it() {
    let (_stage, one) = ahead().await;
    let guard = one.cache.begin_write(&[7]).await;
    assert_eq!(one.read(7).await.0, Some(2));
    guard.aborted().await;
    assert_eq!(one.read(7).await.0, Some(2));
}

#[tokio::test(start_paused = true)]
async fn version_before_an_unknown_write_is_known() {
    let (_stage, one) = ahead().await;
    drop(one.cache.begin_write(&[7]).await);
    // The write is not published yet.
    assert_eq!(one.read(7).await.0, Some(2));
}

#[tokio::test(start_paused = true)]
async fn store_version_is_known_after_an_outage() {
    let (stage, one, _other) = read_once().await;
    one.die();
    sleep(Duration::from_secs(4)).await;
    // Its writer has not published it yet.
    stage.store.put(7, 2);
    assert_eq!(one.read(7).await.0, Some(2));
    let _following = one.follow_again().await;
    assert_eq!(one.read(7).await.0, Some(2));
}

#[tokio::test(start_paused = true)]
async fn load_is_not_older_than_expired_copy() {
    let stage = Stage::new();
    let short = Policy { ttl: Duration::from_millis(100), ..Policy::new("thing", |_| 8) };
    let one = stage.peer_of(1, short).await;
    stage.store.put(7, 1);
    assert_eq!(one.read(7).await.0, Some(1));
    let earlier = stage.server.snapshot();
    one.write(&stage.store, 7, 2).await.unwrap();
    stage.server.fall_back(&earlier);
    assert_eq!(one.read(7).await, (Some(2), Some(Tier::Memory)));
    sleep(Duration::from_millis(101)).await;
    assert_eq!(one.read(7).await.0, Some(2));
}

#[tokio::test(start_paused = true)]
async fn recent_publish_repeats_in_the_next_epoch() {
    let (stage, one, other) = read_once().await;
    one.drain();
    one.write(&stage.store, 7, 2).await.unwrap();
    stage.store.raise(one.node.epoch(), "0").await.unwrap();
    sleep(Duration::from_secs(3)).await;
    assert_eq!((other.node.epoch(), other.node.applied()), (one.node.epoch(), 1));
}

/// Whether a write of this node counts as published.
async fn publishes(stage: &Stage, one: &Peer, version: u64) -> bool {
    let token = one.write(&stage.store, 7, version).await.unwrap();
    token.positions().iter().all(|position| position.number != UNPUBLISHED)
}

#[tokio::test(start_paused = true)]
async fn publish_to_forgotten_epoch_counts_as_failed() {
    let (stage, one, _other) = read_once().await;
    let earlier = stage.server.snapshot();
    stage.store.raise(one.node.epoch(), "0").await.unwrap();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(one.node.epoch(), 2);
    assert!(publishes(&stage, &one, 2).await);
    stage.server.fall_back(&earlier);
    assert!(!publishes(&stage, &one, 3).await);
}

#[tokio::test(start_paused = true)]
async fn publish_to_shorter_log_counts_as_failed() {
    let (stage, one, _other) = read_once().await;
    assert!(publishes(&stage, &one, 2).await);
    let earlier = stage.server.snapshot();
    assert!(publishes(&stage, &one, 3).await && publishes(&stage, &one, 4).await);
    sleep(Duration::from_millis(1)).await;
    stage.server.fall_back(&earlier);
    assert!(!publishes(&stage, &one, 5).await);
}
