//! Nodes over a Redis Cluster with three members.

use std::{path::Path, time::Duration};

use kith_proto::presence::v1::PresenceState;

use crate::{
    cluster::{
        presence,
        redis::{Redis, ask},
        site::{Site, stop},
    },
    gateway_calls::{Gateway, events, open, state, watch},
    polls::until,
    port,
};

/// Each member's slots.
const SLOTS: [&str; 3] = ["0 5460", "5461 10922", "10923 16383"];
/// The longest time until every node has applied a change in a healthy cluster.
const HEALTHY: Duration = Duration::from_secs(1);

/// Starts three primaries that share the slots and know each other. They keep their configuration in the
/// folder.
async fn redis_cluster(folder: &Path) -> Vec<Redis> {
    let (mut members, mut first) = (Vec::<Redis>::new(), String::new());
    for (number, slots) in SLOTS.iter().enumerate() {
        let (bus, file) = (port::free().to_string(), folder.join(format!("nodes-{number}.conf")));
        let arguments = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-config-file"];
        let member = Redis::start(&[&arguments[..], &[file.to_str().unwrap()]].concat()).await;
        assert_eq!(ask(&member.url(), &format!("CLUSTER ADDSLOTSRANGE {slots}")).await, "+OK");
        if first.is_empty() {
            let client_port = member.url().rsplit(':').next().unwrap().to_owned();
            first = format!("127.0.0.1 {client_port} {bus}");
        } else {
            assert_eq!(ask(&member.url(), &format!("CLUSTER MEET {first}")).await, "+OK");
        }
        members.push(member);
    }
    for member in &members {
        until(Duration::from_secs(20), async || {
            let info = ask(&member.url(), "CLUSTER INFO").await;
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        })
        .await;
    }
    members
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn nodes_over_redis_cluster_see_writes() {
    let folder = tempfile::tempdir().unwrap();
    let members = redis_cluster(folder.path()).await;
    let (a, b) = Site::new(Some(members[0].url().replacen("redis", "redis-cluster", 1))).pair().await;
    // There are enough users for every member to have copies.
    for number in 0..30 {
        let id = a.create(&format!("user{number}")).await.user_id;
        assert_eq!(b.get(id).await.nick_name, "", "in the memory of the other now");
        let nick_name = format!("n{number}");
        a.rename(id, &nick_name).await;
        assert_eq!(a.get(id).await.nick_name, nick_name, "one's own write at once");
        until(HEALTHY, async || b.get(id).await.nick_name == nick_name).await;
    }
    stop([a, b]).await;
}

/// The events of each user are published in the slot of its keys.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB, Redis and Cassandra"]
async fn presence_over_redis_cluster_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let members = redis_cluster(folder.path()).await;
    let url = members[0].url().replacen("redis", "redis-cluster", 1);
    let (_site, a, b) = presence::pair(Some(url)).await;
    let mut users = Vec::new();
    for number in 0..32 {
        users.push(a.create(&format!("user{number}")).await.user_id);
    }
    // A new cluster may first not know who is online.
    for user in &users {
        until(Duration::from_secs(20), async || state(&b, *user).await == PresenceState::Offline).await;
    }
    let mut watch = watch(&b, &users).await;
    assert!(events(&mut watch, users.len()).await.iter().all(|(_, state)| *state == PresenceState::Offline));
    let mut gateway = Gateway::new("one");
    for user in &users {
        open(&a, &mut gateway, *user, "phone").await.unwrap();
    }
    let mut seen = events(&mut watch, users.len()).await;
    seen.sort_unstable_by_key(|(user, _)| *user);
    users.sort_unstable();
    assert!(seen.into_iter().eq(users.into_iter().map(|user| (user, PresenceState::Online))));
    stop([a, b]).await;
}
