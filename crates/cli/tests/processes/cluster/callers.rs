//! Checks that all nodes know the same callers.

use std::{fs, path::Path, time::Duration};

use kith_proto::admin::v1::{GetNodeRequest, ListNodesRequest};

use crate::{
    cluster::site::{Peer, Site, stop},
    polls::until,
    rotation::with,
    spawned::{kith, output_of},
};

const KEY: &str = "correct-horse-battery-staple-one-key";
const LIMIT: Duration = Duration::from_secs(20);

async fn digests(peer: &Peer) -> Vec<String> {
    let listed = peer.admin().list_nodes(with(KEY, ListNodesRequest {})).await.unwrap().into_inner();
    listed.nodes.into_iter().map(|node| node.callers_digest).collect()
}

/// Returns the level that the check on callers has.
fn checked(dir: &Path, peer: &Peer) -> String {
    let mut command = kith(dir, &["check", "--addr", &peer.address(), "-o", "json"]);
    command.env("KITH_API_KEY_FILE", "a.key");
    let (_, out, err) = output_of(command);
    let found: serde_json::Value =
        serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out} {err}"));
    let checks = found["checks"].as_array().unwrap();
    let callers = checks.iter().find(|check| check["check"] == "callers").unwrap();
    callers["level"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn different_callers_are_found_by_asking_one() {
    let (dir, site) = (tempfile::tempdir().unwrap(), Site::in_redis_of_tests());
    let node = async |name: &str| {
        let file = dir.path().join(name);
        fs::write(&file, KEY).unwrap();
        site.node_with(|config| {
            config.api_key_file = Some(file);
            config.auth.read_again_every = Duration::from_millis(100);
        })
        .await
    };
    let (a, b) = (node("a.key").await, node("b.key").await);
    until(LIMIT, async || {
        let found = digests(&a).await;
        found.len() == 2 && found[0] == found[1] && found[0].len() == 16
    })
    .await;
    let own = a.admin().get_node(with(KEY, GetNodeRequest {})).await.unwrap().into_inner().callers_digest;
    assert_eq!(own, digests(&b).await[0], "by the key of their store");
    assert_eq!(checked(dir.path(), &a), "ok");
    fs::write(dir.path().join("b.key"), format!("{KEY}\ncorrect-horse-battery-staple-two-key\n")).unwrap();
    until(LIMIT, async || {
        let found = digests(&a).await;
        found[0] == own && found[1] != own && found[1].len() == 16
    })
    .await;
    assert_eq!(checked(dir.path(), &a), "critical");
    stop([a, b]).await;
}
