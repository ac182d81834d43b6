use std::{sync::atomic::Ordering, time::Duration};

use tokio::time::sleep;

use kith_cache::{
    Policy, Resyncer, Version,
    remote::{Cell, Cells as _, address},
};

use crate::stage::{Peer, Stage};

async fn step(peer: &Peer) -> (u64, u64) {
    let namespace = peer.node.namespace("thing").unwrap();
    let done = namespace.resync(1_000).await.unwrap();
    (done.stale, done.suspects)
}

/// Lets what a read leaves in the shared tier, in a task of its own, come there: virtual time goes on when
/// all is done.
async fn filled() {
    sleep(Duration::from_millis(1)).await;
}

/// A node that has missed a change: it was committed and not published.
async fn missed() -> (Stage, Peer) {
    let stage = Stage::new();
    let peer = stage.peer(1, false).await;
    stage.store.put(7, 1);
    peer.read(7).await;
    filled().await;
    stage.store.put(7, 2);
    (stage, peer)
}

#[tokio::test(start_paused = true)]
async fn copies_that_are_right_are_found_right() {
    let stage = Stage::new();
    let peer = stage.peer(1, false).await;
    stage.store.put(7, 1);
    peer.read(7).await;
    filled().await;
    let namespace = peer.node.namespace("thing").unwrap();
    let done = namespace.resync(1_000).await.unwrap();
    assert_eq!((done.checked, done.stale, done.suspects, done.round_ended), (2, 0, 0, true));
}

#[tokio::test(start_paused = true)]
async fn copy_that_stays_wrong_is_counted_and_dropped() {
    let (_stage, peer) = missed().await;
    assert_eq!(step(&peer).await, (0, 2), "in memory and in the shared tier");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(step(&peer).await.0, 0, "a dead writer's change may still be in transit");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(step(&peer).await.0, 2, "both are past their bound");
    assert_eq!(peer.read(7).await.0, Some(2));
}

/// Takes steps for this long, and counts the copies that they found stale. Each step is about one copy: of
/// more, only some are compared with the store.
async fn stale_within(peer: &Peer, seconds: u64) -> u64 {
    let (mut stale, namespace) = (0, peer.node.namespace("thing").unwrap());
    for _ in 0..seconds {
        sleep(Duration::from_secs(1)).await;
        stale += namespace.resync(1).await.unwrap().stale;
    }
    stale
}

#[tokio::test(start_paused = true)]
async fn no_copy_is_judged_while_redis_is_full() {
    let (stage, peer) = missed().await;
    let writer = stage.peer(2, false).await;
    let _published_later = writer.drain();
    step(&peer).await;
    stage.server.refuse_writes(true);
    // It waits on its node.
    drop(writer.write(&stage.store, 7, 3).await);
    assert_eq!(stale_within(&peer, 14).await, 0);
    stage.server.refuse_writes(false);
    assert_eq!(stale_within(&peer, 20).await, 0, "the change comes when Redis has room again");
    assert_eq!(peer.read(7).await.0, Some(3));
}

#[tokio::test(start_paused = true)]
async fn no_copy_is_judged_while_own_changes_wait() {
    let (stage, peer) = missed().await;
    stage.server.refuse_writes(true);
    sleep(Duration::from_secs(2)).await;
    drop(peer.write(&stage.store, 8, 1).await);
    stage.server.refuse_writes(false);
    assert_eq!(stale_within(&peer, 14).await, 0, "the node does not drain its queue");
    assert!(peer.node.trusted());
    let _drains = peer.drain();
    assert_eq!(stale_within(&peer, 14).await, 2, "a copy that stays wrong is found after the outage");
}

/// Puts a copy into the shared tier past the node, with this limit.
async fn copy(stage: &Stage, peer: &Peer, ttl_max: Option<Duration>) {
    let key = [address(peer.node.epoch(), "thing", &7)];
    stage.server.acquire(&key, 1).await.unwrap();
    let mut cell = Cell::value(1, Version::UNVERSIONED, 1_u64.to_be_bytes().to_vec());
    (cell.header.token, cell.ttl_max) = (1, ttl_max);
    let [key] = key;
    stage.server.fill(&[(key, cell)]).await.unwrap();
    assert_eq!(peer.read(7).await.0, Some(1));
}

/// A node whose copies are at most 9 s old.
async fn limited() -> (Stage, Peer) {
    let stage = Stage::new();
    let age_max = Some(Duration::from_secs(9));
    let peer = stage.peer_of(1, Policy { age_max, ..Policy::new("thing", |_| 8) }).await;
    (stage, peer)
}

#[tokio::test(start_paused = true)]
async fn copy_past_its_age_is_counted_and_dropped() {
    let (stage, peer) = limited().await;
    copy(&stage, &peer, None).await;
    assert_eq!(step(&peer).await, (0, 0));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(step(&peer).await.0, 1);
    assert_eq!(peer.read(7).await.0, None, "the store does not have it");
}

#[tokio::test(start_paused = true)]
async fn copy_within_its_age_is_not_counted() {
    let (stage, peer) = limited().await;
    copy(&stage, &peer, Some(Duration::from_secs(4))).await;
    assert_eq!(step(&peer).await, (0, 0));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(step(&peer).await, (0, 0));
}

#[tokio::test(start_paused = true)]
async fn copy_without_broadcasts_is_wrong_within_age() {
    let (stage, peer) = limited().await;
    stage.store.put(7, 1);
    peer.read(7).await;
    filled().await;
    stage.store.put(7, 2);
    assert_eq!(step(&peer).await, (0, 2), "in memory and in the shared tier");
    for _ in 0..12 {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(step(&peer).await.0, 0);
        peer.read(7).await;
    }
    assert_eq!(peer.read(7).await.0, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_change_on_its_way_is_not_counted() {
    let (stage, peer) = missed().await;
    assert_eq!(step(&peer).await.0, 0);
    peer.write(&stage.store, 7, 2).await.unwrap();
    sleep(Duration::from_secs(12)).await;
    assert_eq!(step(&peer).await, (0, 0));
}

#[tokio::test(start_paused = true)]
async fn small_memory_is_compared_each_5_s_only() {
    let stage = Stage::new();
    let peer = stage.peer(1, false).await;
    stage.store.put(7, 1);
    peer.read(7).await;
    filled().await;
    let before = stage.store.loads.load(Ordering::Relaxed);
    let node = peer.node.clone();
    let _resync = tokio::spawn(async move { Resyncer::default().run(&node).await });
    sleep(Duration::from_secs(30)).await;
    let compared = stage.store.loads.load(Ordering::Relaxed) - before;
    assert!((5..=7).contains(&compared), "the store was asked {compared} times in 30 s");
}
