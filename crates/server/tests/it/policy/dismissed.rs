//! A group that is recreated under a dismissed group's id, over gRPC.

use crate::group_calls::{self, chess, dismiss, join, members, roster};
use crate::node::{TestNode, assert_not_found, principal, until};
use crate::relation_calls::with_users;
use kith_proto::{group::v1::*, member::v1::*};

/// Makes a request for an open group; id 0: Kith chooses the id.
fn to_make(group_id: i64, request_id: &str) -> CreateGroupRequest {
    let group = Group { group_id, ..chess(Visibility::Public, JoinPolicy::Open) };
    CreateGroupRequest { group: Some(group), request_id: request_id.into() }
}

async fn make(node: &TestNode, by: i64, request: CreateGroupRequest) -> i64 {
    node.groups().create_group(principal(by, request)).await.unwrap().into_inner().group.unwrap().group_id
}

/// Returns a user's groups from the records and from the list.
async fn groups_of(node: &TestNode, user_id: i64) -> (Vec<i64>, i64) {
    let request = CountMembershipsRequest { user_id, consistency: None };
    (
        group_calls::groups_of(node, user_id).await,
        node.members().count_memberships(request).await.unwrap().into_inner().count,
    )
}

#[tokio::test]
async fn recreated_group_has_none_of_the_old_members() {
    let (node, [ann, bob, cid]) = with_users().await;
    let group = make(&node, ann, to_make(0, "")).await;
    join(&node, group, bob).await.unwrap();
    for (before, by) in [(ann, cid), (cid, ann), (ann, ann)] {
        dismiss(&node, before, group).await;
        // The group is created at once: its predecessor's memberships may not have ended yet.
        assert_eq!(make(&node, by, to_make(group, "")).await, group);
        assert_eq!(members(&node, group).await, [(by, Role::Owner)]);
        assert_eq!(roster(&node, group).await.owner_id, by);
        assert_eq!(
            (groups_of(&node, bob).await, groups_of(&node, by).await),
            ((vec![], 0), (vec![group], 1))
        );
        join(&node, group, bob).await.unwrap();
    }
    let group = make(&node, ann, to_make(0, "")).await;
    join(&node, group, bob).await.unwrap();
    dismiss(&node, ann, group).await;
    node.groups().create_group(to_make(group, "")).await.unwrap();
    assert_eq!((members(&node, group).await, roster(&node, group).await.owner_id), (vec![], 0));
}

#[tokio::test]
async fn creation_repeated_after_dismissal_adds_no_one() {
    let (node, [ann, bob]) = with_users().await;
    let group = make(&node, ann, to_make(0, "make")).await;
    dismiss(&node, ann, group).await;
    assert_not_found(join(&node, group, bob).await);
    until(async || groups_of(&node, ann).await == (vec![], 0)).await;
    assert_eq!(make(&node, ann, to_make(0, "make")).await, group, "it is answered as before");
    assert_eq!(groups_of(&node, ann).await, (vec![], 0));
    make(&node, bob, to_make(group, "")).await;
    assert_eq!(make(&node, ann, to_make(0, "make")).await, group);
    assert_eq!(members(&node, group).await, [(bob, Role::Owner)], "it is another group by now");
}
