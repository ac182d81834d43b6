//! Tests relation logs.

use futures::future::join_all;
use kith_store::{
    BlockPatch, Edge, Permissions, RelationEvent, RelationEventId, RelationEventKind, Request, Stores,
    Timestamp, Write,
};
use tokio::time::Instant;

use super::{BOUND, KEPT, Stage, blocking, edge, now, user};

/// Rounds in which friendships end.
const UNFRIENDINGS: usize = 12;

/// Reads a whole log.
async fn log(stores: &Stores, owner: i64) -> Vec<RelationEvent> {
    let long_ago = RelationEventId::at(Timestamp(Timestamp::now().0 - 86_400_000), 0);
    stores.relation_log.relation_log(user(owner), long_ago, 1_000).await.unwrap()
}

/// Waits until the logs of 1 and 2 have this many events, since each is written separately, and returns them:
/// both the same.
async fn logged_events(stores: &Stores, count: usize) -> Vec<(Edge, RelationEventKind)> {
    let give_up = Instant::now() + BOUND;
    loop {
        let (first, second) = (log(stores, 1).await, log(stores, 2).await);
        if first.len() >= count && first == second {
            return first.iter().map(|event| (event.edge, event.kind)).collect();
        }
        assert!(Instant::now() < give_up, "{first:?} {second:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

fn allowing(bits: u32) -> BlockPatch {
    BlockPatch { permissions: Some(Some(Permissions::new(bits).unwrap())), ..BlockPatch::default() }
}

fn allowed(before: Option<u32>, after: u32) -> (Edge, RelationEventKind) {
    let of = |bits| Permissions::new(bits).unwrap();
    (edge(1, 2), RelationEventKind::SetPermissions { before: before.map(of), after: Some(of(after)) })
}

async fn befriend(stores: &Stores) {
    for edge in [edge(1, 2), edge(2, 1)] {
        stores.follows.follow(edge, KEPT, now()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn sweep_writes_the_logs_of_a_dead_node() {
    let stage = Stage::open().await;
    let (dying, node) = stage.node(|cql| cql.fail_point = Some("block_written")).await;
    for bits in [1, 2] {
        dying.blocks.set_block(edge(1, 2), allowing(bits), now()).await.unwrap_err();
    }
    drop((dying, node));
    assert_eq!(log(&stage.stores, 1).await, [], "it is not logged yet");
    assert_eq!(logged_events(&stage.stores, 2).await, [allowed(None, 1), allowed(Some(1), 2)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn repeated_permission_change_is_logged_once() {
    let stage = Stage::open().await;
    let (dying, _node) = stage.node(|cql| cql.fail_point = Some("block_written")).await;
    let with_request =
        || Write { request: Some(Request { id: "again".parse().unwrap(), fingerprint: [7; 32] }), ..now() };
    dying.blocks.set_block(edge(1, 2), allowing(1), with_request()).await.unwrap_err();
    for _ in 0..2 {
        let again = stage.stores.blocks.set_block(edge(1, 2), allowing(1), with_request()).await.unwrap();
        assert!(again.replayed);
        let (first, second) = (log(&stage.stores, 1).await, log(&stage.stores, 2).await);
        assert_eq!((first.len(), &first), (1, &second), "before it was acknowledged");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn block_of_dead_node_is_logged() {
    let stage = Stage::open().await;
    befriend(&stage.stores).await;
    let (dying, node) = stage.node(|cql| cql.fail_point = Some("block_written")).await;
    dying.blocks.set_block(edge(1, 2), blocking(true), now()).await.unwrap_err();
    drop((dying, node));
    assert_eq!(logged_events(&stage.stores, 1).await, [(edge(1, 2), RelationEventKind::Unfriended)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn concurrent_unfriending_is_logged_once() {
    let stage = Stage::open().await;
    let (second, third) = (stage.node(|_| ()).await, stage.node(|cql| cql.clock_ahead = 60_000).await);
    let nodes = [&stage.stores, &second.0, &third.0];
    for round in 1..=UNFRIENDINGS {
        befriend(&stage.stores).await;
        let unfollows = (0..6).map(|at| {
            let by = if at % 2 == 0 { edge(1, 2) } else { edge(2, 1) };
            nodes[(at + round) % 3].follows.unfollow(by, now())
        });
        join_all(unfollows).await;
        let (first, second) = (log(nodes[0], 1).await, log(nodes[1], 2).await);
        assert_eq!((first.len(), &first), (round, &second), "{first:?}");
    }
}
