//! Presence after its visibility has changed.

use std::time::Duration;

use crate::gateway_calls::{Gateway, close, events, open};
use crate::node::{TestNode, principal};
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
