//! The id of a deleted user is given again only when nothing of that user is left.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::gateway_calls::{Gateway, counted, open, state};
use crate::node::{TestNode, assert_forbidden, until};
use crate::relation_calls::users;
use kith_proto::{
    group::v1::{Group, JoinPolicy, Visibility},
    member::v1::*,
    presence::v1::PresenceState,
    r#type::v1::import_result,
    user::v1::*,
};
use tonic::Status;

/// Chosen by the caller, so that it can be given again.
const CHOSEN: i64 = 11;
const GROUPS: usize = 40;

async fn create(node: &TestNode, user_id: i64, name: &str) -> Result<User, Status> {
    let user = User { user_id, user_name: name.to_owned(), ..Default::default() };
    let request = CreateUserRequest { user: Some(user), ..Default::default() };
    Ok(node.users().create_user(request).await?.into_inner().user.unwrap())
}

async fn delete(node: &TestNode, user_id: i64) {
    let request = DeleteUserRequest { user_id, ..Default::default() };
    node.users().delete_user(request).await.unwrap();
}

async fn group_of(node: &TestNode, owner: i64, others: &[i64]) -> i64 {
    let group = Group {
        name: "Chess".into(),
        visibility: Visibility::Public.into(),
        join_policy: JoinPolicy::Open.into(),
        creator_id: owner,
        ..Default::default()
    };
    let group_id = node.group(group).await.group_id;
    let request = AddMembersRequest { group_id, user_ids: others.to_vec(), ..Default::default() };
    node.members().add_members(request).await.unwrap();
    group_id
}

async fn owner(node: &TestNode, group_id: i64) -> i64 {
    let request = CountMembersRequest { group_id, consistency: None };
    node.members().count_members(request).await.unwrap().into_inner().roster.unwrap().owner_id
}

async fn groups_of(node: &TestNode, user_id: i64) -> Vec<i64> {
    let request = ListMembershipsRequest { user_id, page_size: 100, ..Default::default() };
    node.members().list_memberships(request).await.unwrap().into_inner().group_ids
}

#[tokio::test]
async fn id_is_refused_while_groups_are_left() {
    let node = TestNode::start_with_relations(|_| {}).await;
    let [ann, bob] = users(&node).await;
    create(&node, CHOSEN, "first").await.unwrap();
    let mut groups = Vec::new();
    for _ in 0..GROUPS {
        groups.push(group_of(&node, CHOSEN, &[ann, bob]).await);
    }
    delete(&node, CHOSEN).await;
    let mut owners = vec![0; GROUPS];
    while !owners.iter().all(|owner| [ann, bob].contains(owner)) {
        assert_forbidden(create(&node, CHOSEN, "second").await);
        for (owner_id, group) in owners.iter_mut().zip(&groups) {
            *owner_id = owner(&node, *group).await;
        }
    }
    until(async || groups_of(&node, CHOSEN).await.is_empty()).await;
    // Not yet either: the note of the deletion is still there.
    assert_forbidden(create(&node, CHOSEN, "second").await);
}

#[tokio::test]
async fn import_of_a_held_id_is_refused() {
    let node = TestNode::start_with_relations(|_| {}).await;
    create(&node, CHOSEN, "first").await.unwrap();
    delete(&node, CHOSEN).await;
    let record = |record, user_id| ImportUser {
        record,
        user: Some(User { user_id, user_name: format!("user{user_id}"), ..Default::default() }),
        ..Default::default()
    };
    let request = ImportUsersRequest { records: vec![record(1, CHOSEN), record(2, CHOSEN + 1)] };
    let answers = node.users().import_users(tokio_stream::iter([request])).await.unwrap();
    let answer = answers.into_inner().message().await.unwrap().unwrap();
    let mut results: Vec<_> = answer.results.into_iter().map(|one| (one.record, one.result)).collect();
    results.sort_by_key(|(record, _)| *record);
    let Some(import_result::Result::Error(error)) = &results[0].1 else { panic!("{results:?}") };
    assert_eq!((error.reason.as_str(), error.field.as_str()), ("STATE_FORBIDS", "user_id"));
    assert!(matches!(results[1].1, Some(import_result::Result::Id(_))), "{results:?}");
}

#[tokio::test]
async fn sessions_end_with_their_account() {
    let node = TestNode::start_with_relations(|config| {
        config.presence.unknown_for = Duration::ZERO;
        config.presence.gateway_ttl = Duration::from_secs(600);
        config.presence.session_ttl = Duration::from_secs(600);
    })
    .await;
    let [ann, bob] = users(&node).await;
    let group = group_of(&node, ann, &[bob]).await;
    let mut gateways = [Gateway::of(&node, "g1").await, Gateway::of(&node, "g2").await];
    for (gateway, device) in gateways.iter_mut().zip(["phone", "laptop"]) {
        open(&node, gateway, ann, device).await.unwrap();
    }
    open(&node, &mut gateways[0], bob, "phone").await.unwrap();
    until(async || counted(&node, group).await == 2).await;
    delete(&node, ann).await;
    until(async || state(&node, ann).await == PresenceState::Offline).await;
    until(async || counted(&node, group).await == 1).await;
    let unknown = gateways[0].beat(&node, &[(ann, "phone"), (bob, "phone")]).await.unwrap();
    assert_eq!(unknown, [(ann, "phone".to_owned())]);
}
