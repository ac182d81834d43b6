//! Bans of users from groups over gRPC: a sanction belongs to the group and the user, and not to the membership.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::applying;
use crate::applying::{accept, apply, of_group, to_invite, to_join};
use crate::node;
use crate::node::{TestNode, assert_denied, assert_refused, principal, until};
use crate::relation_calls;
use crate::relation_calls::{members, with_users};
use kith_proto::{group::v1::*, member::v1::*, user::v1 as users};
use prost_types::Timestamp;
use tonic::{Code, Status};

/// 2096, later than any test runs.
const FAR: Timestamp = Timestamp { seconds: 4_000_000_000, nanos: 0 };

async fn group(node: &TestNode, owner: i64, join_policy: JoinPolicy) -> i64 {
    made(node, owner, 0, join_policy).await
}

/// A public group; id 0: Kith chooses one.
async fn made(node: &TestNode, owner: i64, group_id: i64, join_policy: JoinPolicy) -> i64 {
    let group = Group {
        group_id,
        name: "Chess".into(),
        visibility: Visibility::Public.into(),
        join_policy: join_policy.into(),
        ..Default::default()
    };
    let request = CreateGroupRequest { group: Some(group), ..Default::default() };
    node.groups().create_group(principal(owner, request)).await.unwrap().into_inner().group.unwrap().group_id
}

async fn join(node: &TestNode, group_id: i64, user_id: i64) -> Result<Member, Status> {
    let request = JoinRequest { group_id, user_id, ..Default::default() };
    Ok(node.members().join(principal(user_id, request)).await?.into_inner().member.unwrap())
}

async fn add(node: &TestNode, by: i64, group_id: i64, user_ids: &[i64]) -> Result<(), Status> {
    let request = AddMembersRequest { group_id, user_ids: user_ids.to_vec(), ..Default::default() };
    node.members().add_members(principal(by, request)).await.map(drop)
}

fn to_ban(group_id: i64, user_ids: &[i64]) -> RemoveMembersRequest {
    RemoveMembersRequest { group_id, user_ids: user_ids.to_vec(), ban: true, ..Default::default() }
}

async fn remove(node: &TestNode, by: i64, request: RemoveMembersRequest) -> Result<Vec<i64>, Status> {
    Ok(node.members().remove_members(principal(by, request)).await?.into_inner().user_ids)
}

async fn unban(node: &TestNode, by: i64, group_id: i64, user_ids: &[i64]) -> Result<Vec<i64>, Status> {
    let request = UnbanMembersRequest { group_id, user_ids: user_ids.to_vec(), ..Default::default() };
    Ok(node.members().unban_members(principal(by, request)).await?.into_inner().user_ids)
}

async fn bans(node: &TestNode, by: i64, group_id: i64) -> Result<Vec<Ban>, Status> {
    let (mut found, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListBansRequest { group_id, page_size: 2, page_token };
        let page = node.members().list_bans(principal(by, request)).await?.into_inner();
        found.extend(page.bans);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(found);
        }
    }
}

async fn banned(node: &TestNode, by: i64, group_id: i64) -> Vec<i64> {
    bans(node, by, group_id).await.unwrap().iter().map(|ban| ban.user_id).collect()
}

#[track_caller]
fn assert_banned(refused: Result<impl std::fmt::Debug, Status>) {
    assert_refused(&refused.unwrap_err(), Code::FailedPrecondition, "BANNED", None);
}

#[tokio::test]
async fn mute_stands_after_leave_and_join() {
    let (node, [ann, bob]) = with_users().await;
    let chess = group(&node, ann, JoinPolicy::Open).await;
    join(&node, chess, bob).await.unwrap();
    let mute =
        MuteMemberRequest { group_id: chess, user_id: bob, mute_time: Some(FAR), ..Default::default() };
    node.members().mute_member(principal(ann, mute)).await.unwrap();
    let leave = LeaveRequest { group_id: chess, user_id: bob, ..Default::default() };
    node.members().leave(principal(bob, leave)).await.unwrap();
    assert_eq!(join(&node, chess, bob).await.unwrap().mute_time, Some(FAR));
    remove(&node, ann, RemoveMembersRequest { ban: false, ..to_ban(chess, &[bob]) }).await.unwrap();
    add(&node, ann, chess, &[bob]).await.unwrap();
    let request = GetMemberRequest { group_id: chess, user_id: bob, consistency: None };
    let member = node.members().get_member(request).await.unwrap().into_inner().member.unwrap();
    assert_eq!(member.mute_time, Some(FAR));
}

#[tokio::test]
async fn banned_user_is_kept_out_in_every_way() {
    let (node, [ann, bob, cid]) = with_users().await;
    let open = group(&node, ann, JoinPolicy::Open).await;
    join(&node, open, bob).await.unwrap();
    assert_eq!(remove(&node, ann, to_ban(open, &[bob, cid])).await.unwrap(), [bob]);
    for user in [bob, cid] {
        assert_banned(join(&node, open, user).await);
        assert_banned(add(&node, ann, open, &[user]).await);
        assert_banned(apply(&node, ann, to_invite(open, user)).await);
        let by_service = JoinRequest { group_id: open, user_id: user, ..Default::default() };
        assert_banned(node.members().join(by_service).await);
    }
    assert_eq!(members(&node, open).await, [(ann, Role::Owner)]);
    let found = bans(&node, ann, open).await.unwrap();
    let told: Vec<_> = found.iter().map(|ban| (ban.user_id, ban.banned_by, ban.until)).collect();
    assert_eq!(told, [(bob, ann, None), (cid, ann, None)]);
    assert_eq!(unban(&node, ann, open, &[bob, cid, ann]).await.unwrap(), [bob, cid]);
    join(&node, open, bob).await.unwrap();
    add(&node, ann, open, &[cid]).await.unwrap();
    assert_eq!(banned(&node, ann, open).await, Vec::<i64>::new());
}

#[tokio::test]
async fn banned_user_is_not_accepted() {
    let (node, [ann, bob, cid]) = with_users().await;
    let chess = group(&node, ann, JoinPolicy::Approval).await;
    let asked = apply(&node, bob, to_join(chess, "")).await.unwrap().application_id;
    let invite = apply(&node, ann, to_invite(chess, cid)).await.unwrap().application_id;
    remove(&node, ann, to_ban(chess, &[bob, cid])).await.unwrap();
    assert_banned(accept(&node, ann, of_group(chess), asked).await);
    assert_banned(accept(&node, cid, applying::of_user(cid), invite).await);
    unban(&node, ann, chess, &[bob]).await.unwrap();
    accept(&node, ann, of_group(chess), asked).await.unwrap();
    assert_eq!(members(&node, chess).await, [(ann, Role::Owner), (bob, Role::Member)]);
}

#[tokio::test]
async fn bans_need_a_role_above() {
    let (node, [ann, bob, cid, dan]) = with_users().await;
    let chess = group(&node, ann, JoinPolicy::Open).await;
    for user in [bob, cid] {
        join(&node, chess, user).await.unwrap();
    }
    let role =
        SetRoleRequest { group_id: chess, user_id: bob, role: Role::Admin.into(), ..Default::default() };
    node.members().set_role(principal(ann, role)).await.unwrap();
    for (by, of) in [(cid, dan), (dan, cid), (bob, ann), (bob, bob)] {
        assert_denied(remove(&node, by, to_ban(chess, &[of])).await);
    }
    remove(&node, bob, to_ban(chess, &[cid, dan])).await.unwrap();
    assert_denied(unban(&node, cid, chess, &[cid]).await);
    assert_denied(bans(&node, cid, chess).await);
    assert_eq!(banned(&node, bob, chess).await, [cid, dan]);
}

#[tokio::test]
async fn bad_bans_are_refused_by_field() {
    let (node, [ann, bob]) = with_users().await;
    let chess = group(&node, ann, JoinPolicy::Open).await;
    let past = Some(Timestamp { seconds: 1, nanos: 0 });
    let without = RemoveMembersRequest { ban: false, ban_until: Some(FAR), ..to_ban(chess, &[bob]) };
    for request in [without, RemoveMembersRequest { ban_until: past, ..to_ban(chess, &[bob]) }] {
        let refused = remove(&node, ann, request).await.unwrap_err();
        assert_refused(&refused, Code::InvalidArgument, "INVALID_FIELD", Some("ban_until"));
    }
    let nobody = remove(&node, ann, to_ban(chess, &[i64::MAX])).await.unwrap_err();
    assert_refused(&nobody, Code::NotFound, "NOT_FOUND", None);
    assert_eq!(banned(&node, ann, chess).await, Vec::<i64>::new());
}

#[tokio::test]
async fn bans_of_a_group_are_limited() {
    let node = TestNode::start_with_relations(|config| config.members.bans_max = 2).await;
    let [ann, bob, cid, dan] = relation_calls::users(&node).await;
    let chess = group(&node, ann, JoinPolicy::Open).await;
    remove(&node, ann, to_ban(chess, &[bob, cid])).await.unwrap();
    let refused = node::assert_forbidden(remove(&node, ann, to_ban(chess, &[dan])).await);
    assert!(refused.message().contains("at most 2 bans"), "{refused:?}");
    join(&node, chess, dan).await.unwrap();
}

#[tokio::test]
async fn ban_with_a_request_id_is_made_once() {
    let (node, [ann, bob]) = with_users().await;
    let chess = group(&node, ann, JoinPolicy::Open).await;
    join(&node, chess, bob).await.unwrap();
    let until = Some(FAR);
    let request =
        RemoveMembersRequest { request_id: "once".into(), ban_until: until, ..to_ban(chess, &[bob]) };
    assert_eq!(remove(&node, ann, request.clone()).await.unwrap(), [bob]);
    assert_eq!(bans(&node, ann, chess).await.unwrap()[0].until, until);
    unban(&node, ann, chess, &[bob]).await.unwrap();
    assert_eq!(remove(&node, ann, request.clone()).await.unwrap(), [bob]);
    join(&node, chess, bob).await.unwrap();
    let other = remove(&node, ann, RemoveMembersRequest { ban: false, ban_until: None, ..request }).await;
    assert_refused(&other.unwrap_err(), Code::InvalidArgument, "REQUEST_ID_REUSED", None);
}

#[tokio::test]
async fn bans_and_mutes_end_with_the_group() {
    let (node, [ann, bob, cid]) = with_users().await;
    let chess = group(&node, ann, JoinPolicy::Open).await;
    join(&node, chess, bob).await.unwrap();
    let mute =
        MuteMemberRequest { group_id: chess, user_id: bob, mute_time: Some(FAR), ..Default::default() };
    node.members().mute_member(principal(ann, mute)).await.unwrap();
    remove(&node, ann, to_ban(chess, &[bob, cid])).await.unwrap();
    let dismiss = DismissGroupRequest { group_id: chess, ..Default::default() };
    node.groups().dismiss_group(principal(ann, dismiss)).await.unwrap();
    assert_eq!(made(&node, cid, chess, JoinPolicy::Open).await, chess);
    assert_eq!(banned(&node, cid, chess).await, Vec::<i64>::new());
    assert_eq!(join(&node, chess, bob).await.unwrap().mute_time, None);
}

#[tokio::test]
async fn bans_end_with_the_account() {
    let (node, [ann, bob, cid]) = with_users().await;
    let mut groups = Vec::new();
    for _ in 0..3 {
        let chess = group(&node, ann, JoinPolicy::Open).await;
        remove(&node, ann, to_ban(chess, &[bob, cid])).await.unwrap();
        groups.push(chess);
    }
    let delete = users::DeleteUserRequest { user_id: bob, ..Default::default() };
    node.users().delete_user(delete).await.unwrap();
    for group in groups {
        until(async || banned(&node, ann, group).await == [cid]).await;
    }
}
