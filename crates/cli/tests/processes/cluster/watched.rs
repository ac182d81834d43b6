//! Messages that a cluster node sends to watchers.

use std::time::Duration;

use kith_proto::admin::v1::{NamespaceStats, WatchNodeRequest, WatchNodeResponse};

use crate::cluster::site::{Site, stop};

/// The test fails after this many messages.
const MESSAGES_MAX: usize = 50;

fn of_users(update: &WatchNodeResponse) -> NamespaceStats {
    update.namespaces.iter().find(|one| one.namespace == "user").cloned().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn watcher_sees_proof_of_a_node_and_its_cluster() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    let id = a.create("ann").await.user_id;
    let interval = Some(prost_types::Duration { seconds: 0, nanos: 200_000_000 });
    let mut updates = b.admin().watch_node(WatchNodeRequest { interval }).await.unwrap().into_inner();
    let (mut redis_hits, mut heard) = (0, 0);
    for turn in 0..MESSAGES_MAX {
        a.rename(id, &format!("ann {turn}")).await;
        b.get(id).await;
        let message = updates.message().await.unwrap().unwrap();
        let node = message.node.clone().unwrap();
        assert_eq!((node.redis.as_str(), node.redis_breaker.as_str(), node.nodes), ("follows", "closed", 2));
        let since_proof = Duration::try_from(node.since_proof.unwrap()).unwrap();
        assert!(node.trusted && since_proof < Duration::from_millis(1_500), "{since_proof:?}");
        redis_hits += of_users(&message).redis_hits;
        heard += of_users(&message).invalidations_heard;
        if redis_hits > 0 && heard > 0 {
            break;
        }
    }
    assert!(redis_hits > 0 && heard > 0, "{redis_hits} {heard}");
    let node = b.info().await;
    assert_eq!((node.entries_behind, node.observer_stale), (0, 0));
    assert!(node.repairs > 0, "its first baseline");
    drop(updates);
    stop([a, b]).await;
}
