//! A new epoch begins by hand, on a node of a cluster and on one alone.

use std::time::Duration;

use kith_proto::admin::v1::{GetNodeRequest, StartEpochRequest};

use crate::cluster::site::{Peer, Site, at_least, until};

async fn epoch(peer: &Peer) -> i64 {
    peer.admin().get_node(GetNodeRequest {}).await.unwrap().into_inner().epoch
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn every_node_follows_a_new_epoch() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    let id = a.create("ann").await.user_id;
    let (version, token) = a.rename(id, "old").await;
    b.get(id).await;
    let before = epoch(&b).await;
    let begun = a.admin().start_epoch(StartEpochRequest {}).await.unwrap().into_inner();
    assert_eq!((begun.epoch, begun.followed), (before + 1, true));
    until(Duration::from_secs(2), async || epoch(&b).await == begun.epoch).await;
    assert_eq!(b.read(id, at_least(&token)).await.unwrap().version, version);
    a.until_following().await;
    b.until_following().await;
    a.rename(id, "new").await;
    until(Duration::from_secs(1), async || b.get(id).await.nick_name == "new").await;
    a.stop().await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_node_alone_begins_one_too_and_serves_on() {
    let alone = Site::new(None).node().await;
    let id = alone.create("ann").await.user_id;
    let (_, token) = alone.rename(id, "old").await;
    let before = epoch(&alone).await;
    let begun = alone.admin().start_epoch(StartEpochRequest {}).await.unwrap().into_inner();
    assert_eq!((begun.epoch, begun.followed, epoch(&alone).await), (before + 1, true, before + 1));
    assert_eq!(alone.read(id, at_least(&token)).await.unwrap().nick_name, "old");
    let (version, token) = alone.rename(id, "new").await;
    assert_eq!(alone.read(id, at_least(&token)).await.unwrap().version, version);
    alone.stop().await;
}
