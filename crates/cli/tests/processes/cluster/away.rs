//! Redis is away, from the start or later. The relation store is away.

use std::time::Duration;

use crate::{
    cluster::{
        redis::Redis,
        redis_proxy::RedisProxy,
        site::{Peer, Site, at_least, variable, with_relations},
    },
    polls::until,
    spawned::output_of,
};

fn says_away(peer: &Peer) -> bool {
    peer.node.remarks().iter().any(|remark| remark.reason == "redis_away")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn node_without_redis_serves_from_the_store() {
    let mut redis = Redis::absent(&[]);
    let node = Site::new(Some(redis.url())).node().await;
    let id = node.create("ann").await.user_id;
    let (version, token) = node.rename(id, "a").await;
    assert_eq!(node.read(id, at_least(&token)).await.unwrap().version, version);
    until(Duration::from_secs(3), async || says_away(&node)).await;
    assert!(node.node.causes().is_empty(), "it serves");
    let ready = node.operations("/readyz").await;
    assert!(ready.contains(" 200 ") && ready.contains("\"ready\":true"), "{ready}");
    assert!(ready.contains("\"reason\":\"redis_away\""), "{ready}");
    let listed = node.listed().await;
    assert_eq!((listed.nodes.len(), listed.complete), (1, false));

    redis.run().await;
    node.until_following().await;
    until(Duration::from_secs(3), async || !says_away(&node)).await;
    assert_eq!(node.get(id).await.nick_name, "a");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn redis_that_evicts_the_log_is_unfit() {
    let redis = Redis::start(&["--maxmemory-policy", "allkeys-lru"]).await;
    let node = Site::new(Some(redis.url())).node().await;
    let unfit = || node.node.remarks().into_iter().find(|remark| remark.reason == "redis_unfit");
    until(Duration::from_secs(5), async || unfit().is_some()).await;
    let message = unfit().unwrap().message;
    assert!(message.contains("allkeys-lru") && message.contains("noeviction"), "{message}");
    node.stop().await;
}

/// Returns the exit code from `kith check`, and its line about the relation store.
fn check_of_relations(site: &Site, node: &Peer) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let (code, out, err) = output_of(site.command(folder.path(), &["check", "--addr", &node.address()]));
    let line = out.lines().find(|line| line.starts_with("relations"));
    (code, line.unwrap_or_else(|| panic!("{out}{err}")).to_owned())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB and Cassandra: run cargo xtask test"]
async fn relations_that_are_away_are_reported() {
    let (site, proxy) = (Site::new(None), RedisProxy::default());
    let address = proxy.open(&format!("redis://{}", variable("KITH_TEST_CQL"))).await;
    let contact = address.trim_start_matches("redis://").to_owned();
    let node = site
        .node_with(|config| {
            with_relations(config);
            config.store.cql.contact_points = vec![contact];
        })
        .await;
    let up = async |text: &str| node.operations("/metrics").await.contains(text);
    until(Duration::from_secs(10), async || up("kith_store_up{store=\"cql\"} 1").await).await;
    let (code, line) = check_of_relations(&site, &node);
    assert_eq!(code, Some(0), "{line}");
    assert!(line.contains("answers"), "{line}");
    proxy.cut();
    until(Duration::from_secs(20), async || up("kith_store_up{store=\"cql\"} 0").await).await;
    assert!(up("kith_store_up{store=\"mongodb\"} 1").await);
    let (code, line) = check_of_relations(&site, &node);
    assert_eq!(code, Some(2), "{line}");
    assert!(line.contains("critical") && line.contains("away"), "{line}");
    let ready = node.operations("/readyz").await;
    assert!(ready.contains(" 200 ") && ready.contains("CQL"), "{ready}");
    assert!(!ready.contains("MongoDB"), "the store that answers is not named: {ready}");
    node.stop().await;
}
