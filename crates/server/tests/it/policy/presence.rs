//! Presence over gRPC, as gateways and callers see it.

use std::time::Duration;

use crate::gateway_calls::{Gateway, close, counted, events, gateways_of, online_in, open, state, watch};
use crate::group_calls::{add, chat, remove};
use crate::message_streams::{self, Stream};
use crate::node::{TestNode, all_pages, assert_denied, assert_invalid, assert_not_found, principal, until};
use crate::relation_calls::{block, follow, node_with_users};
use kith_proto::{admin::v1::GetNodeRequest, message::v1::ReceiveRequest, presence::v1::*};
use kith_server::config::Config;

/// Makes all intervals short, and unseen users offline at once.
fn quick(config: &mut Config) {
    config.presence.unknown_for = Duration::ZERO;
    // A gateway that is slow is not dead.
    config.presence.gateway_ttl = Duration::from_secs(60);
    config.presence.look_every = Duration::from_millis(50);
    config.presence.sweep_every = Duration::from_millis(50);
    config.presence.fan_out_wait = Duration::from_secs(10);
}

async fn with_users<const N: usize>() -> (TestNode, [i64; N]) {
    node_with_users(quick).await
}

/// Returns presences as a user sees them.
async fn state_for(node: &TestNode, user: i64, user_ids: &[i64]) -> Vec<PresenceState> {
    let request = BatchGetPresenceRequest { user_ids: user_ids.to_vec() };
    let answer = node.presence().batch_get_presence(principal(user, request)).await.unwrap().into_inner();
    assert!(answer.presences.iter().map(|one| one.user_id).eq(user_ids.iter().copied()));
    answer.presences.iter().map(Presence::state).collect()
}

#[tokio::test]
async fn online_spans_first_to_last_session() {
    let (node, [ann]) = with_users().await;
    let mut gateway = Gateway::new("gw-1");
    assert_eq!(state(&node, ann).await, PresenceState::Offline);
    let first = open(&node, &mut gateway, ann, "phone").await.unwrap();
    let second = open(&node, &mut gateway, ann, "tablet").await.unwrap();
    assert!(first.session_version > 0);
    assert_eq!(first.session_version, second.session_version, "it is where it was");
    let request = GetPresenceRequest { user_id: ann };
    let found = node.presence().get_presence(request).await.unwrap().into_inner().presence.unwrap();
    let devices: Vec<&str> = found.sessions.iter().map(|session| session.device_id.as_str()).collect();
    assert_eq!((found.state(), devices), (PresenceState::Online, vec!["phone", "tablet"]));
    let ttl = found.sessions[0].ttl.unwrap().seconds;
    assert!((590..=600).contains(&ttl), "{ttl}");
    close(&node, &mut gateway, ann, "phone").await.unwrap();
    assert_eq!(state(&node, ann).await, PresenceState::Online);
    let last = close(&node, &mut gateway, ann, "tablet").await.unwrap();
    assert!(last > first.session_version);
    assert_eq!(state(&node, ann).await, PresenceState::Offline);
    assert_eq!(close(&node, &mut gateway, ann, "tablet").await.unwrap(), last, "it has ended");
}

#[tokio::test]
async fn two_devices_count_once_in_groups() {
    let (node, [ann, bob, cid]) = with_users().await;
    let group = chat(&node, ann, &[bob, cid]).await;
    let (mut one, mut two) = (Gateway::new("gw-1"), Gateway::new("gw-2"));
    open(&node, &mut one, ann, "phone").await.unwrap();
    open(&node, &mut one, ann, "tablet").await.unwrap();
    open(&node, &mut two, ann, "desk").await.unwrap();
    open(&node, &mut two, bob, "phone").await.unwrap();
    assert_eq!(counted(&node, group).await, 2);
    assert_eq!(gateways_of(&node, group).await, [("gw-1".to_owned(), 1), ("gw-2".to_owned(), 2)]);
    assert_eq!(online_in(&node, group).await, [ann, bob]);
    close(&node, &mut two, ann, "desk").await.unwrap();
    close(&node, &mut one, ann, "tablet").await.unwrap();
    assert_eq!(gateways_of(&node, group).await, [("gw-1".to_owned(), 1), ("gw-2".to_owned(), 1)]);
    close(&node, &mut one, ann, "phone").await.unwrap();
    assert_eq!((counted(&node, group).await, online_in(&node, group).await), (1, vec![bob]));
}

#[tokio::test]
async fn online_join_and_leave_count_at_once() {
    let (node, [ann, bob]) = with_users().await;
    let group = chat(&node, ann, &[]).await;
    let mut gateway = Gateway::new("gw-1");
    open(&node, &mut gateway, bob, "phone").await.unwrap();
    assert_eq!(counted(&node, group).await, 0);
    for _ in 0..2 {
        add(&node, group, &[bob]).await;
        assert_eq!((counted(&node, group).await, online_in(&node, group).await), (1, vec![bob]));
        remove(&node, group, bob).await;
        assert_eq!((counted(&node, group).await, online_in(&node, group).await), (0, vec![]));
    }
}

#[tokio::test]
async fn online_members_are_paged_by_id() {
    let (node, all) = with_users::<5>().await;
    let group = chat(&node, all[0], &all[1..]).await;
    let mut gateway = Gateway::new("gw-1");
    for user in all {
        open(&node, &mut gateway, user, "phone").await.unwrap();
    }
    let seen = all_pages(async |page_token| {
        let request = ListActiveMembersRequest { group_id: group, page_size: 2, page_token };
        let page = node.presence().list_active_members(request).await?.into_inner();
        assert!(page.members.len() <= 2 && !page.incomplete);
        assert!(page.members.iter().all(|member| member.gateway_ids == ["gw-1"]));
        Ok((page.members, page.next_page_token))
    });
    let seen = seen.await.unwrap().into_iter().map(|member| member.user_id);
    assert_eq!(seen.collect::<Vec<_>>(), all);
    let bad =
        ListActiveMembersRequest { group_id: group, page_token: "garbage".into(), ..Default::default() };
    assert_invalid(node.presence().list_active_members(bad).await, "page_token");
}

#[tokio::test]
async fn nobody_uses_the_id_of_another_gateway() {
    let (node, [ann]) = with_users().await;
    let mut gateway = Gateway::new("gw-1");
    open(&node, &mut gateway, ann, "phone").await.unwrap();
    for token in [String::new(), "garbage".to_owned(), Gateway::of(&node, "gw-2").await.token] {
        let mut other = Gateway { token, ..Gateway::new("gw-1") };
        assert_denied(open(&node, &mut other, ann, "desk").await);
        assert_denied(other.beat(&node, &[(ann, "phone")]).await);
        assert_denied(close(&node, &mut other, ann, "phone").await);
    }
    assert_eq!(
        gateway.beat(&node, &[(ann, "phone"), (ann, "desk")]).await.unwrap(),
        [(ann, "desk".to_owned())]
    );
    assert_eq!(state(&node, ann).await, PresenceState::Online);
}

async fn gateway_ids(node: &TestNode, page_size: i32, page_token: &str) -> (Vec<String>, String) {
    let request = ListGatewaysRequest { page_size, page_token: page_token.to_owned() };
    let page = node.presence().list_gateways(request).await.unwrap().into_inner();
    (page.gateways.into_iter().map(|gateway| gateway.gateway_id).collect(), page.next_page_token)
}

#[tokio::test]
async fn gateways_are_paged_by_id() {
    let node = TestNode::start_with(|config| config.presence.unknown_for = Duration::ZERO).await;
    for id in ["c", "a", "b"] {
        Gateway::of(&node, id).await;
    }
    let (first, token) = gateway_ids(&node, 2, "").await;
    assert_eq!(first, ["a", "b"]);
    assert_eq!(gateway_ids(&node, 2, &token).await, (vec!["c".to_owned()], String::new()));
}

#[tokio::test]
async fn unrenewed_session_ends_with_an_event() {
    let (node, [ann, bob]) = node_with_users(|config| {
        quick(config);
        config.presence.session_ttl = Duration::from_millis(400);
    })
    .await;
    let group = chat(&node, ann, &[bob]).await;
    let mut gateway = Gateway::new("gw-1");
    open(&node, &mut gateway, bob, "phone").await.unwrap();
    let mut watch = watch(&node, &[ann]).await;
    assert_eq!(events(&mut watch, 1).await, [(ann, PresenceState::Offline)]);
    open(&node, &mut gateway, ann, "phone").await.unwrap();
    assert_eq!(events(&mut watch, 1).await, [(ann, PresenceState::Online)]);
    assert_eq!(events(&mut watch, 1).await, [(ann, PresenceState::Offline)]);
    until(async || counted(&node, group).await == 0).await;
    assert_eq!(gateway.beat(&node, &[(ann, "phone")]).await.unwrap(), [(ann, "phone".to_owned())]);
}

#[tokio::test]
async fn watcher_gets_state_then_changes_in_order() {
    let (node, [ann, bob]) = with_users().await;
    let mut gateway = Gateway::new("gw-1");
    let request = WatchPresenceRequest { user_ids: vec![bob, ann, ann] };
    let mut watch = node.presence().watch_presence(request).await.unwrap().into_inner();
    assert_eq!(events(&mut watch, 2).await, [(ann, PresenceState::Offline), (bob, PresenceState::Offline)]);
    for _ in 0..20 {
        open(&node, &mut gateway, ann, "phone").await.unwrap();
        close(&node, &mut gateway, ann, "phone").await.unwrap();
    }
    let mut last = 0;
    for number in 0..40 {
        let response = tokio::time::timeout(Duration::from_secs(30), watch.message()).await;
        let response = response.expect("a response in time").unwrap().unwrap();
        let presence = response.presence.unwrap();
        let online = presence.state() == PresenceState::Online;
        assert_eq!((online, response.gateway_ids.len()), (number % 2 == 0, usize::from(number % 2 == 0)));
        assert!(presence.session_version > last, "{} after {last}", presence.session_version);
        last = presence.session_version;
    }
}

#[tokio::test]
async fn users_see_friends_and_no_gateways() {
    let (node, [ann, bob, cid, dan]) = with_users().await;
    for (one, other) in [(ann, bob), (bob, ann), (ann, cid), (ann, dan), (dan, ann)] {
        follow(&node, one, other).await.unwrap();
    }
    let mut gateway = Gateway::new("gw-1");
    for user in [ann, bob, cid, dan] {
        open(&node, &mut gateway, user, "phone").await.unwrap();
    }
    let (online, unknown) = (PresenceState::Online, PresenceState::Unknown);
    assert_eq!(state_for(&node, ann, &[ann, bob, cid, dan]).await, [online, online, unknown, online]);
    block(&node, dan, ann).await;
    assert_eq!(state_for(&node, ann, &[dan, bob]).await, [unknown, online]);
    let request = GetPresenceRequest { user_id: bob };
    let found = node.presence().get_presence(principal(ann, request)).await.unwrap().into_inner();
    assert!(found.presence.unwrap().sessions.is_empty());
    let request = WatchPresenceRequest { user_ids: vec![bob, cid] };
    let mut watch = node.presence().watch_presence(principal(ann, request)).await.unwrap().into_inner();
    assert_eq!(events(&mut watch, 2).await, [(cid, unknown), (bob, online)]);
    close(&node, &mut gateway, cid, "phone").await.unwrap();
    close(&node, &mut gateway, bob, "phone").await.unwrap();
    assert_eq!(events(&mut watch, 1).await, [(bob, PresenceState::Offline)]);
}

#[tokio::test]
async fn count_for_a_member_shows_no_block() {
    let (node, [ann, bob, cid]) = with_users().await;
    let group = chat(&node, ann, &[bob, cid]).await;
    let mut gateway = Gateway::new("gw-1");
    for user in [ann, bob, cid] {
        open(&node, &mut gateway, user, "phone").await.unwrap();
    }
    block(&node, bob, ann).await;
    for (user, expected) in [(ann, 2), (bob, 3), (cid, 3)] {
        let count = CountActiveMembersRequest { group_id: group, consistency: None };
        let count = node.presence().count_active_members(principal(user, count)).await.unwrap().into_inner();
        let list = ListActiveMembersRequest { group_id: group, ..Default::default() };
        let list = node.presence().list_active_members(principal(user, list)).await.unwrap().into_inner();
        assert_eq!((count.count, list.members.len()), (expected, usize::try_from(expected).unwrap()));
    }
    assert_eq!(counted(&node, group).await, 3, "of a service");
}

#[tokio::test]
async fn unseen_users_are_unknown_in_young_presence() {
    let young = Duration::from_secs(3600);
    let (node, [ann, bob]) = node_with_users(|config| config.presence.unknown_for = young).await;
    let group = chat(&node, ann, &[bob]).await;
    let mut gateway = Gateway::new("gw-1");
    open(&node, &mut gateway, ann, "phone").await.unwrap();
    assert_eq!(state(&node, ann).await, PresenceState::Online);
    assert_eq!(state(&node, bob).await, PresenceState::Unknown);
    let request = CountActiveMembersRequest { group_id: group, consistency: None };
    let counted = node.presence().count_active_members(request).await.unwrap().into_inner();
    assert_eq!((counted.count, counted.incomplete), (1, true));
}

#[tokio::test]
async fn what_cannot_be_taken_is_refused_by_its_field() {
    let (node, [ann]) = with_users().await;
    let named = |user_id, device_id: &str, gateway_id: &str| OpenSessionRequest {
        user_id,
        device_id: device_id.to_owned(),
        gateway_id: gateway_id.to_owned(),
        ..Default::default()
    };
    let long = "x".repeat(65);
    for (request, field) in [
        (named(0, "d", "g"), "user_id"),
        (named(ann, "", "g"), "device_id"),
        (named(ann, "a|b", "g"), "device_id"),
        (named(ann, "d", "a b"), "gateway_id"),
        (named(ann, "d", &long), "gateway_id"),
    ] {
        assert_invalid(node.presence().open_session(request).await, field);
    }
    assert_not_found(node.presence().open_session(named(4711, "d", "g")).await);
    // The call claimed no gateway for a user who does not exist.
    Gateway::of(&node, "g").await;
    for user_ids in [vec![], vec![0], vec![ann; 1001]] {
        assert_invalid(node.presence().watch_presence(WatchPresenceRequest { user_ids }).await, "user_ids");
    }
    let mut gateway = Gateway::new("gw-1");
    assert_invalid(gateway.beat(&node, &vec![(ann, "d"); 1001]).await, "sessions");
}

async fn receive(node: &TestNode, user: i64, device: &str) -> Stream {
    let request = ReceiveRequest { device: device.to_owned(), ..message_streams::now() };
    let mut stream = message_streams::open(node, user, request).await.unwrap();
    stream.until_live().await;
    stream
}

async fn sessions(node: &TestNode, user_id: i64) -> Vec<Session> {
    let found = node.presence().get_presence(GetPresenceRequest { user_id }).await.unwrap();
    found.into_inner().presence.unwrap().sessions
}

#[tokio::test]
async fn stream_with_a_device_is_a_session() {
    let (node, [ann, bob]) = with_users().await;
    let group = chat(&node, ann, &[bob]).await;
    let silent = message_streams::live(&node, ann).await;
    let first = receive(&node, ann, "phone").await;
    let second = receive(&node, ann, "phone").await;
    until(async || sessions(&node, ann).await.len() == 2).await;
    let node_id = node.admin().get_node(GetNodeRequest {}).await.unwrap().into_inner().node_id;
    for session in sessions(&node, ann).await {
        assert!(session.device_id.starts_with("phone."), "{session:?}");
        assert_eq!(session.gateway_id, format!("ws-{node_id}"));
    }
    assert_eq!(counted(&node, group).await, 1);
    drop(first);
    until(async || sessions(&node, ann).await.len() == 1).await;
    drop(second);
    until(async || state(&node, ann).await == PresenceState::Offline).await;
    drop(silent);
}

/// A session's remaining time only rises when its gateway renews it.
#[tokio::test]
async fn node_renews_the_sessions_of_streams() {
    let (node, [ann]) = node_with_users(|config| {
        quick(config);
        config.presence.gateway_ttl = Duration::from_secs(8);
    })
    .await;
    let stream = receive(&node, ann, "phone").await;
    until(async || !sessions(&node, ann).await.is_empty()).await;
    let mut last = Duration::ZERO;
    until(async || {
        let left = sessions(&node, ann).await[0].ttl.unwrap();
        let left = Duration::try_from(left).unwrap();
        let (before, rose) = (last, left > last);
        last = left;
        rose && before > Duration::ZERO
    })
    .await;
    drop(stream);
}

/// A node's heartbeat finds one user's surplus sessions before, or after, another user's session.
#[tokio::test]
async fn surplus_streams_do_not_stop_renewals() {
    let (node, [ann, bob]) = node_with_users(|config| {
        quick(config);
        config.presence.gateway_ttl = Duration::from_secs(8);
        config.presence.sessions_max = 1;
    })
    .await;
    let mut gateway = Gateway::new("gw-1");
    open(&node, &mut gateway, bob, "desk").await.unwrap();
    let mut streams = vec![receive(&node, bob, "phone").await];
    for device in 0..8 {
        streams.push(receive(&node, ann, &format!("phone{device}")).await);
    }
    until(async || state(&node, ann).await == PresenceState::Online).await;
    close(&node, &mut gateway, bob, "desk").await.unwrap();
    until(async || sessions(&node, bob).await.iter().any(|one| one.device_id.starts_with("phone."))).await;
    drop(streams);
}

#[tokio::test]
async fn device_of_a_stream_has_the_form_of_sessions() {
    let (node, [ann]) = with_users().await;
    for device in ["a b".to_owned(), "x".repeat(49), "\u{e9}".to_owned()] {
        let request = ReceiveRequest { device, ..message_streams::now() };
        assert_invalid(node.messages().receive(principal(ann, request)).await, "device");
    }
}
