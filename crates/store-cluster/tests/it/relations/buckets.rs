//! Follow lists that have several buckets.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt as _, stream};
use kith_store::{FollowList, ListPosition, Timestamp, Write};
use kith_store_cluster::CqlOptions;

use super::{KEPT, Stage, agrees, counts_become, edge, user};
use crate::server;

/// This many entries are a whole list, unless the lowest bucket is full.
const WHOLE_LIST: usize = 2_000;

/// A stage whose buckets are small, where user 1 has `fans` fans, put there by two nodes.
async fn fans_in_small_buckets(fans: i64, at_a_time: usize) -> Stage {
    fans_in_small_buckets_with(server::cql_options(), fans, at_a_time).await
}

async fn fans_in_small_buckets_with(options: CqlOptions, fans: i64, at_a_time: usize) -> Stage {
    let stage = Stage::open_with(CqlOptions { bucket_entries: 7, ..options }).await;
    let (other, _other) = stage.node(|_| ()).await;
    let nodes = [&stage.stores, &other];
    stream::iter(2..fans + 2)
        .for_each_concurrent(at_a_time, |from| async move {
            let store = &nodes[usize::try_from(from % 2).unwrap()].follows;
            let write = Write::at(Timestamp(1_700_000_000_000 + from));
            store.follow(edge(from, 1), KEPT, write).await.unwrap();
        })
        .await;
    stage
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn pages_join_over_the_borders_of_buckets() {
    let stage = fans_in_small_buckets(60, 8).await;
    pages_join(&stage).await;
    counts_become(&stage.stores, 1, (0, 60)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn pages_join_over_buckets_that_are_closed() {
    // A bucket's bounds are certain after any count since the next bucket was opened.
    let options = CqlOptions { clocks_apart: Duration::ZERO, ..server::cql_options() };
    let stage = fans_in_small_buckets_with(options, 60, 8).await;
    counts_become(&stage.stores, 1, (0, 60)).await;
    pages_join(&stage).await;
}

/// Reads 60 fans by pages in many sizes.
async fn pages_join(stage: &Stage) {
    for limit in [1, 5, 7, 8, 60, 100, WHOLE_LIST] {
        let (mut read, mut after) = (Vec::new(), None::<ListPosition>);
        loop {
            let page =
                stage.stores.follows.follow_list(user(1), FollowList::Fans, after, limit).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.position_in(FollowList::Fans));
            read.extend(page.iter().map(|follow| follow.edge.from.get()));
        }
        assert_eq!(read, (2..62).rev().collect::<Vec<_>>(), "by {limit}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn existing_follows_fill_no_bucket() {
    let stage = fans_in_small_buckets(1, 1).await;
    let follows = &stage.stores.follows;
    for at in 0..20 {
        let write = Write::at(Timestamp(1_700_000_001_000 + at));
        follows.follow(edge(2, 1), KEPT, write.clone()).await.unwrap();
        follows.unfollow(edge(2, 1), write).await.unwrap();
    }
    for from in 3..6 {
        let write = Write::at(Timestamp(1_700_000_002_000 + from));
        follows.follow(edge(from, 1), KEPT, write).await.unwrap();
    }
    let list = follows.follow_list(user(1), FollowList::Fans, None, WHOLE_LIST).await.unwrap();
    let fans: Vec<i64> = list.iter().map(|follow| follow.edge.from.get()).collect();
    assert_eq!(fans, [5, 4, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn follow_in_old_bucket_ends_and_returns_there() {
    let stage = fans_in_small_buckets(30, 1).await;
    let write = Write::at(Timestamp(1_700_000_001_000));
    stage.stores.follows.unfollow(edge(2, 1), write.clone()).await.unwrap();
    assert!(!agrees(&stage.stores, edge(2, 1)).await);
    counts_become(&stage.stores, 1, (0, 29)).await;
    let again = stage.stores.follows.follow(edge(2, 1), KEPT, write).await.unwrap().record;
    assert_eq!(again.placed, Timestamp(1_700_000_000_002));
    assert!(agrees(&stage.stores, edge(2, 1)).await);
    let all: BTreeSet<i64> = super::list(&stage.stores, 1, FollowList::Fans)
        .await
        .iter()
        .map(|follow| follow.edge.from.get())
        .collect();
    assert_eq!(all, (2..32).collect());
    counts_become(&stage.stores, 1, (0, 30)).await;
}
