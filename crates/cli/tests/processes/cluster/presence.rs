//! Presence through several nodes and one Redis.

use std::time::{Duration, Instant};

use kith_cache::remote::redis::RedisOptions;
use kith_presence::{Change, Instance, PresenceLimits, Presences, RedisPresence, SessionOp};
use kith_proto::{
    group::v1::{CreateGroupRequest, Group, Visibility},
    member::v1::AddMembersRequest,
    presence::v1::{presence_service_client::PresenceServiceClient, *},
};
use kith_server::config::Config;
use kith_store::UserId;
use tonic::{Code, Streaming, transport::Channel};

use crate::{
    cluster::{
        redis::{Redis, database_id},
        site::{Peer, Site, stop, variable, with_relations},
    },
    gateway_calls::{Gateway, PresenceNode, open, state, watch},
    polls::until,
};

const PATIENCE: Duration = Duration::from_secs(30);
const UNKNOWN_FOR: Duration = Duration::from_secs(3);

impl PresenceNode for Peer {
    fn presence(&self) -> PresenceServiceClient<Channel> {
        PresenceServiceClient::new(self.channel())
    }
}

impl Peer {
    async fn counted(&self, group_id: i64) -> (i64, bool) {
        let request = CountActiveMembersRequest { group_id, consistency: None };
        let answer = self.presence().count_active_members(request).await.unwrap().into_inner();
        (answer.count, answer.incomplete)
    }

    /// Creates a group with these users.
    async fn group(&self, users: &[i64]) -> i64 {
        let group = Group {
            name: "Chess".into(),
            visibility: Visibility::Public.into(),
            creator_id: users[0],
            ..Group::default()
        };
        let request = CreateGroupRequest { group: Some(group), ..CreateGroupRequest::default() };
        let created = self.groups().create_group(request).await.unwrap().into_inner();
        let group_id = created.group.unwrap().group_id;
        if users.len() > 1 {
            let user_ids = users[1..].to_vec();
            let request = AddMembersRequest { group_id, user_ids, ..AddMembersRequest::default() };
            self.members().add_members(request).await.unwrap();
        }
        group_id
    }
}

/// Two nodes with relations, where what takes time takes little, but for the death of a gateway.
pub(super) async fn pair(redis: Option<String>) -> (Site, Peer, Peer) {
    let site = Site::new(redis);
    let quick = |config: &mut Config| {
        with_relations(config);
        config.redis.command_timeout = Duration::from_secs(1);
        config.presence.unknown_for = UNKNOWN_FOR;
        config.presence.gateway_ttl = Duration::from_secs(60);
        config.presence.look_every = Duration::from_millis(100);
        config.presence.sweep_every = Duration::from_millis(400);
        config.presence.fan_out_wait = Duration::from_secs(10);
    };
    let [a, b] = site.nodes(quick).await;
    (site, a, b)
}

async fn pair_in_redis_of_tests() -> (Site, Peer, Peer) {
    pair(Some(variable("KITH_TEST_REDIS"))).await
}

/// Opens the site's presences, like a node that does nothing else.
async fn presences_of(site: &Site) -> Presences {
    let url = site.redis.clone().unwrap();
    let options = RedisOptions {
        database_id: database_id(&url, &site.prefix).await,
        url,
        prefix: site.prefix.clone(),
        command_timeout: Duration::from_secs(5),
        ..RedisOptions::default()
    };
    let limits = PresenceLimits {
        sessions_max: 20,
        gateways_max: 100,
        kept: Duration::from_secs(3600),
        recheck_after: Duration::from_millis(200),
    };
    RedisPresence::connect(options, limits).await.unwrap().presences()
}

async fn next(watch: &mut Streaming<WatchPresenceResponse>) -> (PresenceState, i64) {
    let response = tokio::time::timeout(PATIENCE, watch.message()).await.expect("it comes in time");
    let presence = response.unwrap().expect("the stream goes on").presence.unwrap();
    (presence.state(), presence.session_version)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs MongoDB, Redis and Cassandra"]
async fn devices_at_two_nodes_count_once_and_in_order() {
    let (_site, a, b) = pair_in_redis_of_tests().await;
    let (ann, bob) = (a.create("ann").await.user_id, a.create("bob").await.user_id);
    let group = a.group(&[ann, bob]).await;
    until(PATIENCE, async || state(&a, ann).await == PresenceState::Offline).await;
    let mut watch = watch(&b, &[ann]).await;
    assert_eq!(next(&mut watch).await, (PresenceState::Offline, 0));
    let (mut one, mut two) = (Gateway::new("one"), Gateway::new("two"));
    let first = open(&a, &mut one, ann, "phone").await.unwrap().session_version;
    let second = open(&b, &mut two, ann, "desk").await.unwrap().session_version;
    assert_eq!(next(&mut watch).await, (PresenceState::Online, first));
    assert_eq!(next(&mut watch).await, (PresenceState::Online, second));
    assert!(second > first);
    for node in [&a, &b] {
        assert_eq!(state(node, ann).await, PresenceState::Online);
        until(PATIENCE, async || node.counted(group).await == (1, false)).await;
    }
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs MongoDB, Redis and Cassandra"]
async fn others_publish_groups_of_a_dead_node() {
    let (site, a, b) = pair_in_redis_of_tests().await;
    let ann = a.create("ann").await.user_id;
    let group = a.group(&[ann]).await;
    let mut gateway = Gateway::new("gw");
    gateway.beat(&a, &[]).await.unwrap();
    let presences = presences_of(&site).await;
    let instance = presences.sessions.gateways().await.unwrap().all.pop().unwrap().instance;
    let change = async |op| {
        let change = Change { user: UserId::new(ann).unwrap(), instance: Instance::clone(&instance), op };
        presences.sessions.change(&[change]).await.pop().unwrap().unwrap()
    };
    let opened = change(SessionOp::Open("phone".parse().unwrap(), Duration::from_secs(60))).await;
    assert!(opened.published && opened.state.needs_fan_out());
    assert!(gateway.beat(&b, &[(ann, "phone")]).await.unwrap().is_empty(), "it is there");
    until(PATIENCE, async || b.counted(group).await.0 == 1).await;
    let closed = change(SessionOp::Close("phone".parse().unwrap())).await;
    assert!(closed.published && closed.state.needs_fan_out());
    until(PATIENCE, async || {
        gateway.beat(&b, &[]).await.unwrap();
        a.counted(group).await.0 == 0 && b.counted(group).await.0 == 0
    })
    .await;
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs MongoDB, Redis and Cassandra"]
async fn without_redis_users_are_unknown() {
    let mut redis = Redis::start(&[]).await;
    let (_site, a, b) = pair(Some(redis.url())).await;
    let ann = a.create("ann").await.user_id;
    let mut gateway = Gateway::new("gw");
    open(&a, &mut gateway, ann, "phone").await.unwrap();
    redis.kill();
    let begun = Instant::now();
    let refused = open(&a, &mut gateway, ann, "desk").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    assert_eq!(state(&b, ann).await, PresenceState::Unknown);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    redis.run().await;
    let mut unknown = Vec::new();
    until(PATIENCE, async || {
        let beat = gateway.beat(&a, &[(ann, "phone")]).await;
        beat.map(|sessions| unknown = sessions).is_ok()
    })
    .await;
    // A gateway reopens a session when the answer says that it is missing, unless the node was the first to
    // restore it.
    if !unknown.is_empty() {
        open(&a, &mut gateway, ann, "phone").await.unwrap();
    }
    until(PATIENCE, async || state(&b, ann).await == PresenceState::Online).await;
    stop([a, b]).await;
}
