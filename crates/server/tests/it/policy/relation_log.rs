//! The logs with users' actions about each other, over gRPC, as callers see them.

use crate::application_calls::{accept, befriend, of_user};
use crate::node::{TestNode, assert_invalid, principal};
use crate::relation_calls::with_users;
use kith_proto::{application::v1::*, relation::v1 as relations};
use tonic::Status;

async fn log(node: &TestNode, by: i64, user_id: i64) -> Result<Vec<RelationEvent>, Status> {
    let request = ListRelationLogRequest { user_id, ..Default::default() };
    Ok(node.applications().list_relation_log(principal(by, request)).await?.into_inner().events)
}

/// Returns the actor, the deed and the target from the user's own log.
async fn own_log(node: &TestNode, user: i64) -> Vec<(i64, Deed, i64)> {
    let events = log(node, user, user).await.unwrap();
    events.into_iter().map(|event| (event.user_id, event.deed(), event.target_id)).collect()
}

async fn become_friends(node: &TestNode, one: i64, other: i64) {
    let asked = befriend(node, one, other).await;
    accept(node, other, of_user(other), asked.application_id).await.unwrap();
}

async fn unfriend(node: &TestNode, user_id: i64, friend_id: i64, request_id: &str) {
    let request = relations::UnfriendRequest { user_id, friend_id, request_id: request_id.into() };
    node.relations().unfriend(principal(user_id, request)).await.unwrap();
}

/// Sets the permissions that `user` gives to `target`; `None`: the default permissions.
async fn allow(node: &TestNode, user_id: i64, target_id: i64, permissions: Option<u32>) {
    let request = relations::SetPermissionsRequest { user_id, target_id, permissions, ..Default::default() };
    node.relations().set_permissions(principal(user_id, request)).await.unwrap();
}

#[tokio::test]
async fn end_of_friendship_is_logged_for_both_once() {
    let (node, [ann, bob, cid]) = with_users().await;
    become_friends(&node, ann, bob).await;
    for _ in 0..2 {
        unfriend(&node, ann, bob, "part").await;
    }
    assert_eq!(own_log(&node, ann).await, [(ann, Deed::Unfriended, bob)]);
    assert_eq!(log(&node, bob, bob).await.unwrap(), log(&node, ann, ann).await.unwrap());
    let event = log(&node, ann, ann).await.unwrap().remove(0);
    assert!(event.event_id > 0 && event.time.is_some());
    assert_eq!((event.permissions_before, event.permissions_after), (None, None));
    become_friends(&node, ann, bob).await;
    unfriend(&node, bob, ann, "").await;
    assert_eq!(own_log(&node, ann).await, [(ann, Deed::Unfriended, bob), (bob, Deed::Unfriended, ann)]);
    assert_eq!(own_log(&node, cid).await, []);
}

#[tokio::test]
async fn permission_change_is_logged_for_both() {
    let (node, [ann, bob]) = with_users().await;
    for permissions in [Some(9), Some(9), Some(0), None] {
        allow(&node, ann, bob, permissions).await;
    }
    let events = log(&node, bob, bob).await.unwrap();
    assert_eq!(events, log(&node, ann, ann).await.unwrap());
    let sets: Vec<_> =
        events.iter().map(|event| (event.permissions_before, event.permissions_after)).collect();
    assert_eq!(sets, [(None, Some(9)), (Some(9), Some(0)), (Some(0), None)]);
    let expected = (ann, Deed::SetPermissions, bob);
    assert!(events.iter().all(|event| (event.user_id, event.deed(), event.target_id) == expected));
}

#[tokio::test]
async fn log_continues_after_a_page_or_known_id() {
    let (node, [ann, bob]) = with_users().await;
    for permissions in 1..=5 {
        allow(&node, ann, bob, Some(permissions)).await;
    }
    let all = log(&node, ann, ann).await.unwrap();
    let (mut seen, mut page_token) = (Vec::new(), String::new());
    for expected in [2, 2, 1] {
        let request = ListRelationLogRequest { user_id: ann, after_id: 0, page_size: 2, page_token };
        let page = node.applications().list_relation_log(request).await.unwrap().into_inner();
        assert_eq!(page.events.len(), expected);
        seen.extend(page.events);
        page_token = page.next_page_token;
    }
    assert_eq!((&seen, page_token), (&all, String::new()));
    assert!(all.is_sorted_by_key(|event| event.event_id));
    let request = ListRelationLogRequest { user_id: ann, after_id: all[2].event_id, ..Default::default() };
    let page = node.applications().list_relation_log(request).await.unwrap().into_inner();
    assert_eq!(page.events, all[3..]);
    let whole = ListRelationLogRequest { user_id: ann, ..Default::default() };
    let first = ListRelationLogRequest { page_size: 1, ..whole.clone() };
    let page_token = node.applications().list_relation_log(first).await.unwrap().into_inner().next_page_token;
    assert!(!page_token.is_empty());
    for (request, field) in [
        (
            ListRelationLogRequest { user_id: bob, page_token: page_token.clone(), ..whole.clone() },
            "page_token",
        ),
        (ListRelationLogRequest { after_id: 7, page_token, ..whole }, "page_token"),
    ] {
        assert_invalid(node.applications().list_relation_log(request).await, field);
    }
}
