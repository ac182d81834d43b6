//! Redis answers with refusals: when a node starts, and while nodes run.

use std::time::Duration;

use kith_server::Node;

use crate::{
    cluster::{
        claims::refused,
        redis::{Redis, ask},
        site::{Peer, Site, stop},
    },
    polls::until,
    spawned::{FREE, output_of},
};

/// The longest time until a node has checked its Redis again, on a machine with other work.
const LOOKED: Duration = Duration::from_secs(20);
/// The documented line with which operators grant the commands that nodes need.
const DOCUMENTED: &str = include_str!("../../../../../docs/operate/cluster.md");

/// Returns a node's `/readyz` remark for this reason.
fn remark(peer: &Peer, reason: &str) -> Option<String> {
    peer.node.remarks().into_iter().find(|remark| remark.reason == reason).map(|remark| remark.message)
}

async fn until_reported(peer: &Peer, reason: &str, words: &str) {
    until(LOOKED, async || remark(peer, reason).is_some_and(|message| message.contains(words))).await;
}

async fn until_over(peer: &Peer, reason: &str) {
    until(LOOKED, async || remark(peer, reason).is_none()).await;
}

/// Returns the line with which a start ends: at once, or after the node has waited for its store.
async fn refused_start(site: &Site) -> String {
    match Node::start(site.config()).await {
        Ok(node) => refused(node).await,
        Err(line) => line.to_string(),
    }
}

/// Returns code and output from `kith doctor` with the site's configuration.
fn doctor(site: &Site) -> (Option<i32>, String) {
    let arguments = ["doctor", "-o", "json", "--set", "limits.connections=16"];
    let (code, found, _) = output_of(site.command(&std::env::temp_dir(), &[&FREE[..], &arguments].concat()));
    (code, found)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn wrong_settings_of_redis_end_the_start() {
    let redis = Redis::start(&["--requirepass", "sesame"]).await;
    let url = |user: &str| redis.url().replace("redis://", &format!("redis://{user}"));
    let good = url("default:sesame@");
    for (url, words) in [
        (url("default:wrong@"), "WRONGPASS"),
        (redis.url(), "NOAUTH"),
        (format!("{good}/99"), "no database 99"),
        (good.replace("redis:", "rediss:"), "speaks no TLS"),
        (good.replace("redis:", "redis-cluster:"), "no member of a cluster"),
    ] {
        let site = Site::new(Some(url));
        let line = refused_start(&site).await;
        assert!(line.contains(words) && line.contains("redis") && !line.contains("sesame"), "{line}");
        let (code, found) = doctor(&site);
        assert!(code == Some(1) && found.contains(words) && !found.contains("sesame"), "{found}");
    }
    let renamed = Redis::start(&["--rename-command", "EVAL", "OTHER"]).await;
    let line = refused_start(&Site::new(Some(renamed.url()))).await;
    assert!(line.contains("the command EVAL"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn what_changes_at_run_time_is_reported() {
    let redis = Redis::start(&[]).await;
    let node = Site::new(Some(redis.url())).node().await;
    node.until_following().await;
    for (done, reason, words, undone) in [
        (
            "CONFIG SET maxmemory-policy allkeys-lru",
            "redis_unfit",
            "allkeys-lru",
            "CONFIG SET maxmemory-policy noeviction",
        ),
        ("ACL SETUSER default -publish", "redis_refused", "PUBLISH", "ACL SETUSER default +publish"),
        ("ACL SETUSER default -get", "redis_refused", "GET", "ACL SETUSER default +get"),
        ("CONFIG SET maxmemory 1", "redis_refused", "OOM", "CONFIG SET maxmemory 0"),
    ] {
        assert_eq!(ask(&redis.url(), done).await, "+OK");
        until_reported(&node, reason, words).await;
        assert_eq!(ask(&redis.url(), undone).await, "+OK");
        until_over(&node, reason).await;
    }
    node.until_following().await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn documented_rights_are_enough() {
    let redis = Redis::start(&[]).await;
    let url = redis.url().replace("redis://", "redis://kith:PASSWORD@");
    let site = Site::new(Some(url));
    let line = DOCUMENTED.lines().map(str::trim).find(|line| line.starts_with("ACL SETUSER kith")).unwrap();
    let line = line.replace("{kith:", &format!("{{{}:", site.prefix));
    assert_eq!(ask(&redis.url(), &line).await, "+OK", "{line}");
    let (a, b) = site.pair().await;
    let id = a.create("ann").await.user_id;
    a.rename(id, "annie").await;
    until(LOOKED, async || b.get(id).await.nick_name == "annie").await;
    let (_, found) = doctor(&site);
    let of_redis = serde_json::from_str::<serde_json::Value>(&found).unwrap()["findings"].clone();
    let of_redis = of_redis.as_array().unwrap().iter().any(|finding| finding["group"] == "redis");
    assert!(!of_redis, "{found}");
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn doctor_finds_another_database_on_the_prefix() {
    let redis = Redis::start(&[]).await;
    let site = Site::new(Some(redis.url()));
    let other = Site { database: format!("{}_other", site.database), ..site.clone() };
    // It migrates its database.
    other.node().await.stop().await;
    let node = site.node().await;
    let (code, found) = doctor(&other);
    assert!(code == Some(1) && found.contains("nodes of another database"), "{found}");
    assert!(!doctor(&site).1.contains("nodes of another database"));
    node.stop().await;
}
