//! A private group is shown to some users only.

use crate::application_calls::{apply, of_user, refuse, to_invite, to_join};
use crate::group_calls::{add, private_group, public_group, remove};
use crate::node::{TestNode, assert_refused, principal};
use crate::relation_calls::with_users;
use kith_proto::group::v1::*;
use tonic::{Code, Status};

async fn get(node: &TestNode, user: i64, group_id: i64) -> Result<Group, Status> {
    let request = GetGroupRequest { group_id, consistency: None };
    Ok(node.groups().get_group(principal(user, request)).await?.into_inner().group.unwrap())
}

/// Returns the groups that a batch returns to a user; the others are not found.
async fn batch(node: &TestNode, user: i64, group_ids: &[i64]) -> Vec<i64> {
    let request = BatchGetGroupsRequest { group_ids: group_ids.to_vec(), consistency: None };
    let answer = node.groups().batch_get_groups(principal(user, request)).await.unwrap().into_inner();
    assert!(answer.results.iter().map(|result| result.group_id).eq(group_ids.iter().copied()));
    let shown = answer.results.into_iter().filter(|result| match result.result.as_ref().unwrap() {
        group_result::Result::Group(_) => true,
        group_result::Result::NotFound(_) => false,
        group_result::Result::Error(error) => panic!("{error:?}"),
    });
    shown.map(|result| result.group_id).collect()
}

async fn is_hidden(node: &TestNode, user: i64, group_id: i64) -> bool {
    let hidden = get(node, user, group_id).await;
    if let Err(refused) = &hidden {
        assert_refused(refused, Code::NotFound, "NOT_FOUND", None);
    }
    assert_eq!(hidden.is_err(), batch(node, user, &[group_id]).await.is_empty());
    hidden.is_err()
}

#[tokio::test]
async fn private_group_is_for_members_and_services() {
    let (node, [ann, bob, cid]) = with_users().await;
    let private = private_group(&node, ann, JoinPolicy::Invite).await;
    let public = public_group(&node, ann, JoinPolicy::Open).await;
    add(&node, private, &[bob]).await;
    for member in [ann, bob] {
        assert_eq!(get(&node, member, private).await.unwrap().name, "Chess");
        assert_eq!(batch(&node, member, &[private, public, private]).await, [private, public, private]);
    }
    assert!(is_hidden(&node, cid, private).await && !is_hidden(&node, cid, public).await);
    assert_eq!(batch(&node, cid, &[private, public, private]).await, [public]);
    let request = GetGroupRequest { group_id: private, consistency: None };
    assert!(node.groups().get_group(request).await.is_ok(), "to services");
    remove(&node, private, bob).await;
    assert!(is_hidden(&node, bob, private).await, "after it left");
    let private = private_group(&node, ann, JoinPolicy::Invite).await;
    let hidden = get(&node, bob, private).await.unwrap_err();
    let absent = get(&node, bob, private + 100).await.unwrap_err();
    assert_eq!((hidden.message(), hidden.details()), (absent.message(), absent.details()));
    let names = |status: &Status| status.metadata().keys().map(|key| format!("{key:?}")).collect::<Vec<_>>();
    assert_eq!(names(&hidden), names(&absent));
}

#[tokio::test]
async fn private_group_is_shown_while_asked() {
    let (node, [ann, bob, cid]) = with_users().await;
    let private = private_group(&node, ann, JoinPolicy::Invite).await;
    let other = private_group(&node, ann, JoinPolicy::Invite).await;
    let invite = apply(&node, ann, to_invite(private, bob)).await.unwrap();
    assert!(!is_hidden(&node, bob, private).await);
    assert!(is_hidden(&node, bob, other).await && is_hidden(&node, cid, private).await);
    assert_eq!(batch(&node, bob, &[other, private]).await, [private]);
    refuse(&node, bob, of_user(bob), invite.application_id).await.unwrap();
    assert!(is_hidden(&node, bob, private).await, "after it refused");
    let private = private_group(&node, ann, JoinPolicy::Approval).await;
    assert!(is_hidden(&node, bob, private).await);
    apply(&node, bob, to_join(private, "")).await.unwrap();
    assert!(!is_hidden(&node, bob, private).await && is_hidden(&node, cid, private).await);
}
