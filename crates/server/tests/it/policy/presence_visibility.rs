//! Presence after its visibility has changed.

use std::time::Duration;

use crate::gateway_calls::{Gateway, close, events, gateways_of, online_in, open};
use crate::group_calls::chat;
use crate::node::{TestNode, assert_denied, principal};
use crate::relation_calls::{block, follow, node_with_users, unblock};
use kith_proto::presence::v1::*;
use kith_server::config::Config;
use tonic::Streaming;

const ONLINE: PresenceState = PresenceState::Online;
const OFFLINE: PresenceState = PresenceState::Offline;
const UNKNOWN: PresenceState = PresenceState::Unknown;

fn settled(config: &mut Config) {
    config.presence.unknown_for = Duration::ZERO;
    config.presence.gateway_ttl = Duration::from_secs(60);
    config.presence.fan_out_wait = Duration::from_secs(10);
}

async fn start<const N: usize>(visibility_every: Duration) -> (TestNode, [i64; N]) {
    node_with_users(|config| {
        settled(config);
        config.presence.visibility_every = visibility_every;
    })
    .await
}

async fn befriend(node: &TestNode, one: i64, other: i64) {
    follow(node, one, other).await.unwrap();
    follow(node, other, one).await.unwrap();
}

async fn watch_as(node: &TestNode, user: i64, user_ids: &[i64]) -> Streaming<WatchPresenceResponse> {
    let request = WatchPresenceRequest { user_ids: user_ids.to_vec() };
    node.presence().watch_presence(principal(user, request)).await.unwrap().into_inner()
}

#[tokio::test]
async fn blocked_watcher_gets_unknown_once() {
    let (node, [ann, bob, cid]) = start(Duration::from_millis(50)).await;
    befriend(&node, ann, bob).await;
    befriend(&node, ann, cid).await;
    let mut gateway = Gateway::new("gw-1");
    open(&node, &mut gateway, bob, "phone").await.unwrap();
    let mut watch = watch_as(&node, ann, &[bob, cid]).await;
    assert_eq!(events(&mut watch, 2).await, [(bob, ONLINE), (cid, OFFLINE)]);
    block(&node, bob, ann).await;
    assert_eq!(events(&mut watch, 1).await, [(bob, UNKNOWN)]);
    close(&node, &mut gateway, bob, "phone").await.unwrap();
    // The next event is about another user: there is neither a second UNKNOWN nor an event about the hidden
    // user.
    open(&node, &mut gateway, cid, "phone").await.unwrap();
    assert_eq!(events(&mut watch, 1).await, [(cid, ONLINE)]);
}

#[tokio::test]
async fn new_friend_is_shown_to_a_watcher() {
    let (node, [ann, bob]) = start(Duration::from_millis(50)).await;
    let mut gateway = Gateway::new("gw-1");
    open(&node, &mut gateway, bob, "phone").await.unwrap();
    let mut watch = watch_as(&node, ann, &[bob]).await;
    assert_eq!(events(&mut watch, 1).await, [(bob, UNKNOWN)]);
    befriend(&node, ann, bob).await;
    assert_eq!(events(&mut watch, 1).await, [(bob, ONLINE)]);
    block(&node, bob, ann).await;
    assert_eq!(events(&mut watch, 1).await, [(bob, UNKNOWN)]);
    unblock(&node, bob, ann).await;
    befriend(&node, ann, bob).await;
    assert_eq!(events(&mut watch, 1).await, [(bob, ONLINE)]);
    close(&node, &mut gateway, bob, "phone").await.unwrap();
    assert_eq!(events(&mut watch, 1).await, [(bob, OFFLINE)]);
}

#[tokio::test]
async fn online_members_are_for_unblocked_members() {
    let (node, [ann, bob, cid, dan]) = start(Duration::from_secs(30)).await;
    let group_id = chat(&node, ann, &[bob, cid]).await;
    let mut gateway = Gateway::new("gw-1");
    for user in [ann, bob, cid] {
        open(&node, &mut gateway, user, "phone").await.unwrap();
    }
    let list = || ListActiveMembersRequest { group_id, ..Default::default() };
    let seen_by = async |user: i64| {
        let page = node.presence().list_active_members(principal(user, list())).await?.into_inner();
        Ok::<Vec<i64>, tonic::Status>(page.members.iter().map(|member| member.user_id).collect())
    };
    assert_denied(seen_by(dan).await);
    block(&node, bob, ann).await;
    assert_eq!(seen_by(ann).await.unwrap(), [ann, cid]);
    assert_eq!(seen_by(bob).await.unwrap(), [ann, bob, cid]);
    assert_eq!(online_in(&node, group_id).await, [ann, bob, cid], "to services");
    let count = CountActiveMembersRequest { group_id, consistency: None };
    assert_eq!(
        node.presence().count_active_members(principal(dan, count)).await.unwrap().into_inner().count,
        3
    );
}

#[tokio::test]
async fn gateways_of_a_group_are_for_services() {
    let (node, [ann, bob]) = start(Duration::from_secs(30)).await;
    let group_id = chat(&node, ann, &[bob]).await;
    let mut gateway = Gateway::new("gw-1");
    open(&node, &mut gateway, ann, "phone").await.unwrap();
    let through = ListActiveGatewaysRequest { group_id, consistency: None };
    assert_denied(node.presence().list_active_gateways(principal(ann, through)).await);
    assert_eq!(gateways_of(&node, group_id).await, [("gw-1".to_owned(), 1)]);
}
