//! Users bring others into a group: friends are added, all others are invited with one answer.

use crate::application_calls::{accept, of_user, pending, shown};
use crate::group_calls::{
    add, add_as, is_in, make_admin, private_group, roster, to_remove, with_users_who_add,
};
use crate::node::{TestNode, assert_denied, assert_error, assert_not_found, principal};
use crate::relation_calls::{block, follow, with_users};
use kith_proto::{application::v1::list_applications_request::List, group::v1::JoinPolicy, member::v1::*};
use tonic::Code;

fn request(group_id: i64, user_ids: &[i64]) -> AddMembersRequest {
    AddMembersRequest { group_id, user_ids: user_ids.to_vec(), ..Default::default() }
}

async fn befriend(node: &TestNode, one: i64, other: i64) {
    follow(node, one, other).await.unwrap();
    follow(node, other, one).await.unwrap();
}

async fn invites(node: &TestNode, user: i64) -> i64 {
    pending(node, of_user(user)).await.1
}

fn added(answer: &AddMembersResponse) -> Vec<i64> {
    answer.members.iter().map(|member| member.user_id).collect()
}

#[tokio::test]
async fn users_add_friends_and_invite_others() {
    let (node, [ann, bob, cid, dan]) = with_users().await;
    befriend(&node, ann, bob).await;
    block(&node, dan, ann).await;
    let group = private_group(&node, ann, JoinPolicy::Invite).await;
    let answer = add_as(&node, ann, group, &[dan, bob, cid, cid]).await.unwrap();
    assert_eq!((added(&answer), answer.invited_user_ids.clone()), (vec![bob], vec![dan, cid]));
    assert_eq!(answer.roster.unwrap().count, 2);
    assert!(!is_in(&node, group, cid).await && !is_in(&node, group, dan).await);
    assert_eq!((invites(&node, cid).await, invites(&node, dan).await), (1, 0));
    let id = shown(&node, cid, List::ReceivedBy(cid)).await[0].0;
    accept(&node, cid, of_user(cid), id).await.unwrap();
    assert!(is_in(&node, group, cid).await);
    let again = add_as(&node, ann, group, &[cid, bob]).await.unwrap();
    assert_eq!((added(&again), again.invited_user_ids), (vec![], vec![]), "both are members");
}

#[tokio::test]
async fn blockers_and_strangers_get_one_answer() {
    let (node, [ann, cid, dan]) = with_users().await;
    let group = private_group(&node, ann, JoinPolicy::Approval).await;
    block(&node, dan, ann).await;
    for _ in 0..2 {
        let of = async |user| {
            let answer = add_as(&node, ann, group, &[user]).await.unwrap();
            assert_eq!(answer.invited_user_ids, [user]);
            AddMembersResponse { invited_user_ids: Vec::new(), ..answer }
        };
        let (stranger, blocker) = (of(cid).await, of(dan).await);
        assert_eq!(
            AddMembersResponse { consistency_token: String::new(), ..stranger },
            AddMembersResponse { consistency_token: String::new(), ..blocker }
        );
    }
    assert_eq!((invites(&node, cid).await, invites(&node, dan).await), (1, 0));
}

#[tokio::test]
async fn repeated_addition_invites_once() {
    let (node, [ann, bob, cid]) = with_users().await;
    befriend(&node, ann, bob).await;
    let group = private_group(&node, ann, JoinPolicy::Invite).await;
    let request = AddMembersRequest { request_id: "r1".into(), ..request(group, &[bob, cid]) };
    let mut answers = Vec::new();
    for _ in 0..2 {
        let answer = node.members().add_members(principal(ann, request.clone())).await.unwrap().into_inner();
        answers.push((added(&answer), answer.invited_user_ids));
    }
    assert_eq!(answers, [(vec![bob], vec![cid]), (vec![bob], vec![cid])]);
    assert_eq!(invites(&node, cid).await, 1);
}

#[tokio::test]
async fn members_without_the_role_invite_no_user() {
    let (node, [ann, bob, cid, dan]) = with_users().await;
    let group = private_group(&node, ann, JoinPolicy::Invite).await;
    add(&node, group, &[bob]).await;
    ban(&node, group, dan).await;
    for user in [cid, dan] {
        assert_denied(add_as(&node, bob, group, &[user]).await);
    }
    assert_eq!(invites(&node, cid).await, 0);
    make_admin(&node, group, bob).await;
    assert_error(add_as(&node, bob, group, &[cid, dan]).await, Code::FailedPrecondition, "BANNED");
    assert_eq!(invites(&node, cid).await, 0, "it is refused as a whole");
    assert_not_found(add_as(&node, bob, group, &[cid, dan + 1_000]).await);
}

async fn ban(node: &TestNode, group_id: i64, user: i64) {
    let request = RemoveMembersRequest { ban: true, ..to_remove(group_id, &[user]) };
    node.members().remove_members(request).await.unwrap();
}

#[tokio::test]
async fn services_add_users_without_asking() {
    let (node, [ann, cid, dan]) = with_users().await;
    let group = private_group(&node, ann, JoinPolicy::Invite).await;
    block(&node, dan, ann).await;
    let answer = node.members().add_members(request(group, &[cid, dan])).await.unwrap().into_inner();
    assert_eq!((added(&answer), answer.invited_user_ids), (vec![cid, dan], vec![]));
}

#[tokio::test]
async fn setting_lets_users_add_everybody() {
    let (node, [ann, cid, dan]) = with_users_who_add().await;
    let group = private_group(&node, ann, JoinPolicy::Invite).await;
    block(&node, dan, ann).await;
    let answer = add_as(&node, ann, group, &[cid, dan]).await.unwrap();
    assert_eq!((added(&answer), answer.invited_user_ids), (vec![cid, dan], vec![]));
    assert_eq!(roster(&node, group).await.count, 3);
}
