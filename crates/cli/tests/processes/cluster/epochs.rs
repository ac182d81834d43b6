//! A new epoch begins by hand, on a cluster node and in single-node mode.

use std::time::Duration;

use kith_proto::admin::v1::StartEpochRequest;

use crate::{
    cluster::{
        hand,
        site::{Site, at_least, stop, until_all_follow, with_relations},
    },
    polls::until,
};

/// A new epoch would drop the first callers' inboxes, windows and sequence numbers.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask test"]
async fn new_cluster_stays_in_its_first_epoch() {
    let site = Site::in_redis_of_tests();
    let [a, b] = site.nodes(with_relations).await;
    let id = a.create("ann").await.user_id;
    hand::set(&site.database, "users", id, "nick", "by hand");
    // By now the feeds are read.
    until(Duration::from_secs(11), async || b.get(id).await.nick_name == "by hand").await;
    assert_eq!([a.info().await.epoch, b.info().await.epoch], [1, 1]);
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn every_node_follows_a_new_epoch() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    let id = a.create("ann").await.user_id;
    let (version, token) = a.rename(id, "old").await;
    b.get(id).await;
    let before = b.info().await.epoch;
    let begun = a.admin().start_epoch(StartEpochRequest {}).await.unwrap().into_inner();
    assert_eq!((begun.epoch, begun.followed), (before + 1, true));
    until(Duration::from_secs(2), async || b.info().await.epoch == begun.epoch).await;
    assert_eq!(b.read(id, at_least(&token)).await.unwrap().version, version);
    until_all_follow([&a, &b]).await;
    a.rename(id, "new").await;
    until(Duration::from_secs(1), async || b.get(id).await.nick_name == "new").await;
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_node_alone_begins_one_too_and_serves_on() {
    let alone = Site::new(None).node().await;
    let id = alone.create("ann").await.user_id;
    let (_, token) = alone.rename(id, "old").await;
    let before = alone.info().await.epoch;
    let begun = alone.admin().start_epoch(StartEpochRequest {}).await.unwrap().into_inner();
    assert_eq!((begun.epoch, begun.followed), (before + 1, true));
    assert_eq!(alone.info().await.epoch, before + 1);
    assert_eq!(alone.read(id, at_least(&token)).await.unwrap().nick_name, "old");
    let (version, token) = alone.rename(id, "new").await;
    assert_eq!(alone.read(id, at_least(&token)).await.unwrap().version, version);
    alone.stop().await;
}
