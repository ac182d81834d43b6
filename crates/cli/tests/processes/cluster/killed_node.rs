//! A killed node starts again at its address: the others call the new process.

use std::time::Duration;

use kith_proto::admin::v1::InspectKeyRequest;

use crate::{
    cluster::{redis_proxy::following, site::Site},
    polls::until,
    spawned::{FREE, Started},
};

/// This is less than the minute for which a killed node stays in the registry.
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn restarted_node_is_called_by_its_new_id() {
    let (dir, site) = (tempfile::tempdir().unwrap(), Site::in_redis_of_tests());
    let other = site.node().await;
    let killed = Started::of(site.command(dir.path(), &FREE));
    drop(following(&killed).await);
    other.until_following().await;
    let (address, listens) = (killed.url(), killed.grpc());
    let ids = async || {
        let nodes = other.listed().await.nodes.into_iter();
        nodes.filter(|node| node.address == address).map(|node| node.node_id).collect::<Vec<_>>()
    };
    until(LIMIT, async || ids().await.len() == 1).await;
    let before = ids().await;
    drop(killed);

    let arguments = ["--listen", &listens, "--set", "operations.listen=127.0.0.1:0"];
    let restarted = Started::of(site.command(dir.path(), &arguments));
    drop(following(&restarted).await);
    until(LIMIT, async || {
        let now = ids().await;
        now.len() == 1 && now != before
    })
    .await;
    let request = InspectKeyRequest { key: "user/7".to_owned(), ..Default::default() };
    let answer = other.admin().inspect_key(request).await.unwrap().into_inner();
    let unanswered: Vec<_> = answer.others.iter().map(|node| node.unanswered.as_str()).collect();
    assert_eq!(unanswered, [""], "it is called by its new id alone");
    restarted.stop();
    other.stop().await;
}
