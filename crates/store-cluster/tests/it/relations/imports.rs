//! Tests follow imports.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join;
use kith_store::{Edge, FeedRecord, FollowList, ImportedFollow, Stored, Timestamp};
use tokio::time::Instant;

use super::{BOUND, KEPT, Stage, agrees, counts_become, edge, feed, list, now};

fn follows(to: std::ops::Range<i64>) -> Vec<ImportedFollow> {
    to.map(|to| ImportedFollow { edge: edge(1, to), since: Timestamp(5) }).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn import_over_live_follows_leaves_no_ghost() {
    let stage = Stage::open().await;
    let (other, _other) = stage.node(|cql| cql.clock_ahead = 60_000).await;
    let all = follows(2..52);
    let live = async {
        for to in 2..52 {
            other.follows.follow(edge(1, to), KEPT, now()).await.unwrap();
            other.follows.unfollow(edge(1, to), now()).await.unwrap();
        }
    };
    let import = async {
        for part in all.chunks(5) {
            stage.stores.follows.import_follows(part, Timestamp::now()).await.unwrap();
        }
    };
    join(live, import).await;
    for to in 2..52 {
        assert!(!agrees(&stage.stores, edge(1, to)).await, "{to} was ended after it was begun");
    }
    counts_become(&stage.stores, 1, (0, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn repeated_import_completes_a_cut_one() {
    let stage = Stage::open().await;
    let (dying, _node) = stage.node(|cql| cql.fail_point = Some("import_rows_written")).await;
    let all = follows(2..30);
    dying.follows.import_follows(&all, Timestamp(1_700_000_000_000)).await.unwrap_err();
    stage.stores.follows.import_follows(&all, Timestamp(1_700_000_009_000)).await.unwrap();
    for to in 2..30 {
        assert!(agrees(&stage.stores, edge(1, to)).await);
    }
    counts_become(&stage.stores, 1, (28, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn two_imports_leave_one_list_entry() {
    let stage = Stage::open().await;
    let (slow, _slow) = stage.node(|cql| cql.clock_ahead = -60_000).await;
    let all = follows(2..30);
    stage.stores.follows.import_follows(&all, Timestamp(1_700_000_000_000)).await.unwrap();
    // The slow import was first by its clock, and came second.
    slow.follows.import_follows(&all, Timestamp(1_700_000_009_000)).await.unwrap();
    let places = async || {
        let list = list(&stage.stores, 1, FollowList::Following).await;
        list.iter().map(|follow| (follow.edge.to.get(), follow.placed.0)).collect::<Vec<_>>()
    };
    let expected: Vec<_> = (2..30).rev().map(|to| (to, 1_700_000_009_000)).collect();
    let give_up = Instant::now() + BOUND;
    while places().await != expected {
        assert!(Instant::now() < give_up, "{:?}", places().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for to in 2..30 {
        assert!(agrees(&stage.stores, edge(1, to)).await);
    }
    counts_become(&stage.stores, 1, (28, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn feed_delivers_each_imported_follow() {
    let stage = Stage::open().await;
    let mut feeds = feed::open(&stage.stores).await;
    let all = follows(2..402);
    stage.stores.follows.import_follows(&all, Timestamp::now()).await.unwrap();
    let edges: Vec<Edge> = all.iter().map(|follow| follow.edge).collect();
    let mut expected = BTreeMap::new();
    for edges in edges.chunks(100) {
        for (edge, follow) in stage.stores.follows.follows(edges).await.unwrap() {
            let Stored::Live(follow) = follow else { panic!("{edge:?} is not active") };
            expected.insert(FeedRecord::Follow(edge), follow.version);
        }
    }
    assert_eq!(expected.len(), all.len());
    feed::assert_delivered(&mut feeds, expected).await;
}
