//! Follows and blocks by nodes that die.

use std::time::Duration;

use kith_store::{FollowList, RequestId, Stored, Write};
use tokio::time::Instant;

use super::{BOUND, KEPT, Stage, agrees, blocking, counts_become, edge, list, now, state};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn sweep_completes_the_block_of_a_dead_node() {
    let stage = Stage::open().await;
    stage.stores.follows.follow(edge(2, 1), KEPT, now()).await.unwrap();
    let (dying, node) = stage.node(|cql| cql.fail_point = Some("block_written")).await;
    dying.blocks.set_block(edge(1, 2), blocking(true), now()).await.unwrap_err();
    drop((dying, node));
    assert!(state(&stage.stores, edge(2, 1)).await.live().is_some(), "it died before it ended the follow");
    let give_up = Instant::now() + BOUND;
    while state(&stage.stores, edge(2, 1)).await.live().is_some() {
        assert!(Instant::now() < give_up, "no node ends the follow");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!agrees(&stage.stores, edge(2, 1)).await);
    counts_become(&stage.stores, 1, (0, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn slot_without_state_is_free() {
    let stage = Stage::open().await;
    let (dying, _node) = stage.node(|cql| cql.fail_point = Some("follow_slot_taken")).await;
    dying.follows.follow(edge(1, 2), KEPT, now()).await.unwrap_err();
    assert_eq!(state(&stage.stores, edge(1, 2)).await, Stored::Never);
    assert!(!agrees(&stage.stores, edge(1, 2)).await);
    stage.stores.follows.follow(edge(1, 2), KEPT, now()).await.unwrap();
    assert!(agrees(&stage.stores, edge(1, 2)).await);
    counts_become(&stage.stores, 2, (0, 1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn repeated_request_keeps_its_version() {
    let stage = Stage::open().await;
    let id: RequestId = "again".parse().unwrap();
    let request = Some(kith_store::Request { id, fingerprint: [7; 32] });
    let write = Write { request, ..now() };
    let (dying, _node) = stage.node(|cql| cql.fail_point = Some("follow_written")).await;
    dying.follows.follow(edge(1, 2), KEPT, write.clone()).await.unwrap_err();
    let landed = state(&stage.stores, edge(1, 2)).await.live().unwrap();
    let later = Write { now: kith_store::Timestamp(write.now.0 + 5000), ..write };
    let again = stage.stores.follows.follow(edge(1, 2), KEPT, later).await.unwrap();
    assert_eq!(again.record, landed);
    assert!(again.replayed && agrees(&stage.stores, edge(1, 2)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn missing_and_stray_entries_are_repaired() {
    let stage = Stage::open().await;
    let stores = &stage.stores;
    for to in 2..6 {
        stores.follows.follow(edge(1, to), KEPT, now()).await.unwrap();
    }
    stores.follows.unfollow(edge(1, 5), now()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(11)).await;
    let lost = state(stores, edge(1, 2)).await.live().unwrap();
    let flip = |live, owner, list, other, at| {
        format!(
            "UPDATE %k.follow_lists SET live = {live}, version = {}, since = {at} WHERE owner = {owner} AND list = {list} \
             AND bucket = 0 AND placed = {at} AND other = {other}",
            lost.version.get() + 1
        )
    };
    stage.run(&format!("DELETE FROM %k.follow_lists WHERE owner = 2 AND list = 1 AND bucket = 0 AND placed = {} AND other = 1", lost.placed.0)).await;
    stage.run(&flip(1, 3, 1, 9, lost.placed.0 - 5)).await;
    let mut kinds = Vec::new();
    for repair in [true, false] {
        let mut after = None;
        loop {
            let step = stores.edges.verify_edges(after.as_deref(), 7, repair).await.unwrap();
            kinds.extend(step.differences.iter().map(|found| (found.edge, found.repaired)));
            after = step.next;
            if after.is_none() {
                break;
            }
        }
    }
    kinds.sort_unstable();
    assert_eq!(kinds, [(edge(1, 2), true), (edge(9, 3), true)], "each is found once and repaired");
    assert!(agrees(stores, edge(1, 2)).await);
    assert_eq!(list(stores, 3, FollowList::Fans).await.len(), 1);
}
