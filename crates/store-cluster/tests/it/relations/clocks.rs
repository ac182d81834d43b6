//! Nodes whose clocks differ.

use std::time::Duration;

use futures::future::{join, join_all};
use kith_store::{Edge, FollowList, StoreError, Stores, Timestamp, Write};

use super::{KEPT, Stage, agrees, blocking, edge, now, state};

const PAIRS: i64 = 4;
const ROUNDS: i64 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn unfollow_survives_a_fast_clock() {
    let stage = Stage::open().await;
    let (fast, _fast) = stage.node(|cql| cql.clock_ahead = 60_000).await;
    let (slow, _slow) = stage.node(|cql| cql.clock_ahead = -60_000).await;
    for to in 2..12 {
        let begun = fast.follows.follow(edge(1, to), KEPT, now()).await.unwrap().record.version;
        let ended = slow.follows.unfollow(edge(1, to), now()).await.unwrap().record;
        assert!(ended > begun);
        assert!(!agrees(&fast, edge(1, to)).await);
        let again = slow.follows.follow(edge(1, to), KEPT, now()).await.unwrap().record.version;
        assert!(again > ended);
        assert!(agrees(&fast, edge(1, to)).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn crossing_writes_agree_despite_clock_skew() {
    let stage = Stage::open().await;
    let (fast, _fast) = stage.node(|cql| cql.clock_ahead = 60_000).await;
    let (slow, _slow) = stage.node(|_| ()).await;
    for round in 0..100 {
        let edge = edge(1, 2 + round % 3);
        let (begun, ended) =
            join(fast.follows.follow(edge, KEPT, now()), slow.follows.unfollow(edge, now())).await;
        begun.unwrap();
        assert!(ended.is_ok() || matches!(ended, Err(StoreError::NotFound)), "{ended:?}");
        agrees(&slow, edge).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn concurrent_slot_moves_leave_one_entry() {
    let stage = Stage::open().await;
    let (other, _other) = stage.node(|cql| cql.clock_ahead = 60_000).await;
    // Many at once: what crosses depends on how busy the servers are.
    let pairs = (1..=PAIRS).map(|from| moves_at_once(&stage.stores, &other, edge(from, 1000 + from)));
    join_all(pairs).await;
}

/// Follows on both nodes at once, each with a separate slot, and ends it, again and again.
async fn moves_at_once(stores: &Stores, other: &Stores, edge: Edge) {
    for round in 0..ROUNDS {
        let late = Write::at(Timestamp(now().now.0 + 60_000 + round));
        let follows = (
            stores.follows.follow(edge, Duration::ZERO, now()),
            other.follows.follow(edge, Duration::ZERO, late),
        );
        let (first, second) = join(follows.0, follows.1).await;
        first.unwrap();
        second.unwrap();
        assert!(agrees(stores, edge).await);
        let shown = super::list(stores, edge.from.get(), FollowList::Following).await;
        assert_eq!(shown.len(), 1, "{shown:?}");
        let (first, second) =
            join(stores.follows.unfollow(edge, now()), other.follows.unfollow(edge, now())).await;
        assert!(first.is_ok() || second.is_ok());
        assert!(!agrees(stores, edge).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn block_wins_over_a_crossing_follow() {
    let stage = Stage::open().await;
    let (other, _other) = stage.node(|cql| cql.clock_ahead = 60_000).await;
    for from in 2..102 {
        let follow = edge(from, 1);
        let (begun, blocked) = join(
            other.follows.follow(follow, KEPT, now()),
            stage.stores.blocks.set_block(follow.reversed(), blocking(true), now()),
        )
        .await;
        blocked.unwrap();
        assert!(begun.is_ok() || matches!(begun, Err(StoreError::Blocked)), "{begun:?}");
        assert!(state(&stage.stores, follow).await.live().is_none(), "{follow}");
        assert!(!agrees(&stage.stores, follow).await);
    }
}
