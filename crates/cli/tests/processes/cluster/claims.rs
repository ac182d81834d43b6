//! A database is claimed by one cluster.

use std::time::Duration;

use kith_server::{Node, health::State};

use crate::{
    cluster::{
        hand::drop_database,
        redis::Redis,
        site::{Peer, Site, stop, until_all_follow},
    },
    polls::until,
};

/// Returns whether a node's `/readyz` says that its prefix is taken.
fn says_taken(peer: &Peer) -> bool {
    peer.node.remarks().iter().any(|remark| remark.reason == "redis_prefix_taken")
}

/// Makes the same cluster over another database.
fn other_database(site: &Site) -> Site {
    Site { database: format!("{}_other", site.database), ..site.clone() }
}

/// Waits until the node ends by itself, and yields its line.
pub(crate) async fn refused(node: Node) -> String {
    let line =
        tokio::time::timeout(Duration::from_secs(20), node.fatal_error()).await.expect("it is refused");
    assert_ne!(node.state(), State::Serving);
    node.stop(std::future::ready(())).await;
    line.to_string()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn second_node_without_redis_waits_for_the_first() {
    let site = Site::new(None);
    let first = site.node().await;
    let line = refused(Node::start(site.config()).await.unwrap()).await;
    assert!(line.contains("is used by another node") && line.contains("redis.url"), "{line}");
    assert!(!line.contains('\n'));
    let id = first.create("ann").await.user_id;
    first.stop().await;
    let next = tokio::time::timeout(Duration::from_secs(3), site.node()).await.expect("it need not wait");
    assert_eq!(next.get(id).await.user_name, "ann");
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn node_with_another_prefix_is_refused() {
    let site = Site::in_redis_of_tests();
    let (a, b) = site.pair().await;
    let alone = Site { redis: None, ..site.clone() };
    let other = Site { prefix: format!("{}-other", site.prefix), ..site.clone() };
    let starts = [Node::start(alone.config()).await.unwrap(), Node::start(other.config()).await.unwrap()];
    let [alone, other] = starts.map(refused);
    let (alone, other) = tokio::join!(alone, other);
    assert!(alone.contains("is used by another node"), "{alone}");
    assert!(other.contains("under the prefix") && other.contains("redis.prefix"), "{other}");
    let id = a.create("ann").await.user_id;
    assert_eq!(b.get(id).await.user_name, "ann");
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn two_clusters_share_a_redis_without_mixing() {
    let (one, other) = (Site::in_redis_of_tests(), Site::in_redis_of_tests());
    let (a, b) = (one.node().await, other.node().await);
    until_all_follow([&a, &b]).await;
    for name in ["ann", "bob"] {
        a.create(name).await;
    }
    let (of_a, of_b) = (a.create("cid").await.user_id, b.create("dan").await.user_id);
    a.rename(of_a, "here").await;
    assert_eq!((a.get(of_a).await.nick_name, b.get(of_b).await.nick_name), ("here".into(), String::new()));
    assert_eq!(b.get(of_b).await.user_name, "dan");
    let node = b.info().await;
    assert_eq!(node.nodes, 1);
    assert!(node.applied <= 1, "a change of its own, and none of the other cluster: {}", node.applied);
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn second_database_on_a_prefix_is_refused() {
    let site = Site::in_redis_of_tests();
    let (a, b) = site.pair().await;
    let id = a.create("ann").await.user_id;
    let line = refused(Node::start(other_database(&site).config()).await.unwrap()).await;
    assert!(line.contains("nodes of another database") && line.contains("redis.prefix"), "{line}");
    assert!(!line.contains('\n'));
    assert_eq!(b.get(id).await.user_name, "ann");
    assert!(!says_taken(&a) && !says_taken(&b));
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn running_node_reports_another_database() {
    let mut redis = Redis::absent(&[]);
    let site = Site::new(Some(redis.url()));
    // Both start before either node can know about the other.
    let (a, b) = (site.node().await, other_database(&site).node().await);
    redis.run().await;
    until(Duration::from_secs(10), async || says_taken(&a) || says_taken(&b)).await;
    until_all_follow([&a, &b]).await;
    let (of_a, of_b) = (a.create("ann").await.user_id, b.create("bob").await.user_id);
    assert_eq!((a.get(of_a).await.user_name, b.get(of_b).await.user_name), ("ann".into(), "bob".into()));
    let (taken, owner) = if says_taken(&a) { (a, b) } else { (b, a) };
    let ready = taken.operations("/readyz").await;
    assert!(ready.contains(" 200 ") && ready.contains("\"reason\":\"redis_prefix_taken\""), "{ready}");
    owner.stop().await;
    until(Duration::from_secs(15), async || !says_taken(&taken)).await;
    taken.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn nodes_of_a_dropped_database_share_nothing() {
    let site = Site::in_redis_of_tests();
    let old = site.node().await;
    drop_database(&site.database);
    let new = Node::start(site.config()).await.unwrap();
    let one_ends = async {
        tokio::select! { line = old.node.fatal_error() => line, line = new.fatal_error() => line }
    };
    let line = tokio::time::timeout(Duration::from_secs(20), one_ends).await.expect("one of them ends");
    assert!(line.to_string().contains("under the prefix"), "{line}");
    new.stop(std::future::ready(())).await;
    old.node.stop(std::future::ready(())).await;
}
