//! A deleted user's id is given again only when no data of that user is left.

use std::time::Duration;

use crate::gateway_calls::{Gateway, counted, open, state};
use crate::group_calls::{chat, groups_of, roster};
use crate::node::{TestNode, assert_forbidden, until};
use crate::relation_calls::{node_with_users, with_users};
use kith_proto::{presence::v1::PresenceState, r#type::v1::import_result, user::v1::*};
use tonic::Status;

/// The caller chooses the id, so that it can be given again.
const CHOSEN: i64 = 11;
const GROUPS: usize = 40;

async fn create(node: &TestNode, user_id: i64, name: &str) -> Result<User, Status> {
    let user = User { user_id, user_name: name.to_owned(), ..Default::default() };
    let request = CreateUserRequest { user: Some(user), ..Default::default() };
    Ok(node.users().create_user(request).await?.into_inner().user.unwrap())
}

async fn delete(node: &TestNode, user_id: i64) {
    node.delete_user(user_id).await;
}

#[tokio::test]
async fn id_is_refused_while_groups_are_left() {
    let (node, [ann, bob]) = with_users().await;
    create(&node, CHOSEN, "first").await.unwrap();
    let mut groups = Vec::new();
    for _ in 0..GROUPS {
        groups.push(chat(&node, CHOSEN, &[ann, bob]).await);
    }
    delete(&node, CHOSEN).await;
    let mut owners = vec![0; GROUPS];
    while !owners.iter().all(|owner| [ann, bob].contains(owner)) {
        assert_forbidden(create(&node, CHOSEN, "second").await);
        for (owner_id, group) in owners.iter_mut().zip(&groups) {
            *owner_id = roster(&node, *group).await.owner_id;
        }
    }
    until(async || groups_of(&node, CHOSEN).await.is_empty()).await;
    // The id is still held: the deletion's note is still there.
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
    let (node, [ann, bob]) = node_with_users(|config| {
        config.presence.unknown_for = Duration::ZERO;
        config.presence.gateway_ttl = Duration::from_secs(600);
        config.presence.session_ttl = Duration::from_secs(600);
    })
    .await;
    let group = chat(&node, ann, &[bob]).await;
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
