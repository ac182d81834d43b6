//! Group members over gRPC, as callers see them.

use crate::group_calls::{
    add_as, chess, groups_of, make, members, private_group, public_group, remove_as, roster, to_remove,
    with_users_who_add,
};
use crate::node::{
    Called, TestNode, all_pages, assert_denied, assert_exhausted, assert_forbidden, assert_invalid,
    assert_not_found, principal, until, update_of_group,
};
use crate::relation_calls::{self, node_with_users};
use kith_proto::{group::v1::*, member::v1::*, relation::v1 as relation};
use prost_types::Timestamp;
use tonic::Status;

async fn join(node: &TestNode, group_id: i64, user_id: i64, code: &str) -> Result<Member, Status> {
    let request = JoinRequest { group_id, user_id, code: code.to_owned(), ..Default::default() };
    Ok(node.members().join(principal(user_id, request)).await?.into_inner().member.unwrap())
}

async fn leave(node: &TestNode, group_id: i64, user_id: i64) -> Result<i64, Status> {
    let request = LeaveRequest { group_id, user_id, ..Default::default() };
    Ok(node.members().leave(principal(user_id, request)).await?.into_inner().version)
}

async fn set_role(node: &TestNode, by: i64, group_id: i64, user_id: i64, role: Role) -> Called<Member> {
    let request = SetRoleRequest { group_id, user_id, role: role.into(), ..Default::default() };
    Ok(node.members().set_role(principal(by, request)).await?.into_inner().member.unwrap())
}

async fn rename(node: &TestNode, by: i64, group_id: i64) -> Result<(), Status> {
    let group = Group { group_id, name: "Go".into(), ..Default::default() };
    node.groups().update_group(principal(by, update_of_group(group, &["name"]))).await.map(drop)
}

async fn transfer(node: &TestNode, by: i64, group_id: i64, owner_id: i64) -> Result<i64, Status> {
    let request = TransferGroupRequest { group_id, owner_id, ..Default::default() };
    Ok(node.groups().transfer_group(principal(by, request)).await?.into_inner().version)
}

#[tokio::test]
async fn who_makes_a_group_owns_it_and_is_listed_in_it() {
    let (node, [ann, bob]) = with_users_who_add().await;
    let group = public_group(&node, ann, JoinPolicy::Open).await;
    assert_eq!(members(&node, group).await, [(ann, Role::Owner)]);
    assert_eq!(groups_of(&node, ann).await, [group]);
    let Roster { count, owner_id, .. } = roster(&node, group).await;
    assert_eq!((count, owner_id), (1, ann));
    assert_denied(rename(&node, bob, group).await);
    rename(&node, ann, group).await.unwrap();
    // A service makes a group for a user, and a group without an owner.
    let group = node.group(Group { name: "Go".into(), creator_id: ann, ..Default::default() }).await.group_id;
    assert_eq!(members(&node, group).await, [(ann, Role::Owner)]);
    let lone = node.group(Group { name: "Go".into(), ..Default::default() }).await.group_id;
    assert_eq!((members(&node, lone).await, roster(&node, lone).await.owner_id), (vec![], 0));
}

#[tokio::test]
async fn joins_and_leaves_show_at_once_keep_ordinals() {
    let (node, [ann, bob, cid]) = with_users_who_add().await;
    let group = public_group(&node, ann, JoinPolicy::Open).await;
    let joined = join(&node, group, bob, "").await.unwrap();
    assert_eq!((joined.role(), joined.ordinal), (Role::Member, 1));
    assert_eq!(join(&node, group, bob, "").await.unwrap(), joined, "joined already");
    assert_eq!(members(&node, group).await, [(ann, Role::Owner), (bob, Role::Member)]);
    assert_eq!((groups_of(&node, bob).await, roster(&node, group).await.count), (vec![group], 2));
    assert!(leave(&node, group, bob).await.unwrap() > joined.version);
    assert_eq!((groups_of(&node, bob).await, roster(&node, group).await.count), (vec![], 1));
    assert_not_found(leave(&node, group, bob).await);
    assert_eq!(join(&node, group, cid, "").await.unwrap().ordinal, 2);
    assert_eq!(join(&node, group, bob, "").await.unwrap().ordinal, 1);
}

#[tokio::test]
async fn groups_are_joined_as_their_policy_has_it() {
    let (node, [ann, bob]) = with_users_who_add().await;
    for policy in [JoinPolicy::Approval, JoinPolicy::Invite] {
        let group = public_group(&node, ann, policy).await;
        assert_forbidden(join(&node, group, bob, "").await);
        add_as(&node, ann, group, &[bob]).await.unwrap();
        assert_eq!(members(&node, group).await.len(), 2);
    }
    for (visibility, policy) in
        [(Visibility::Public, JoinPolicy::Code), (Visibility::Private, JoinPolicy::Open)]
    {
        let group = make(&node, ann, chess(visibility, policy)).await;
        let request = GetInviteCodeRequest { group_id: group };
        let code =
            node.groups().get_invite_code(principal(ann, request)).await.unwrap().into_inner().invite_code;
        for wrong in ["", &code[1..], &format!("{code}x")] {
            assert_denied(join(&node, group, bob, wrong).await);
        }
        join(&node, group, bob, &code).await.unwrap();
    }
}

#[tokio::test]
async fn a57_group_code_is_not_found_by_trying() {
    let (node, [ann, bob, cid]) = with_users_who_add().await;
    let group = private_group(&node, ann, JoinPolicy::Code).await;
    for _ in 0..5 {
        assert_denied(join(&node, group, bob, "ABCDEFGHJKMN").await);
    }
    let code = GetInviteCodeRequest { group_id: group };
    let code = node.groups().get_invite_code(principal(ann, code)).await.unwrap().into_inner().invite_code;
    assert_exhausted(join(&node, group, bob, &code).await, "TOO_MANY_TRIES");
    assert!(join(&node, group, cid, &code).await.is_ok(), "another user has tries of its own");
}

#[tokio::test]
async fn a58_private_membership_is_for_members() {
    let (node, [ann, bob, cid]) = with_users_who_add().await;
    let group = private_group(&node, ann, JoinPolicy::Invite).await;
    add_as(&node, ann, group, &[bob]).await.unwrap();
    for (user, sees) in [(bob, true), (cid, false)] {
        let list = ListMembersRequest { group_id: group, ..Default::default() };
        let one = GetMemberRequest { group_id: group, user_id: ann, consistency: None };
        let are = BatchIsMemberRequest { group_id: group, user_ids: vec![ann], consistency: None };
        let count = CountMembersRequest { group_id: group, consistency: None };
        let sync = SyncMembersRequest { group_id: group, ..Default::default() };
        assert_eq!(node.members().list_members(principal(user, list)).await.is_ok(), sees);
        assert_eq!(node.members().get_member(principal(user, one)).await.is_ok(), sees);
        assert_eq!(node.members().batch_is_member(principal(user, are)).await.is_ok(), sees);
        assert_eq!(node.members().count_members(principal(user, count)).await.is_ok(), sees);
        assert_eq!(node.members().sync_members(principal(user, sync)).await.is_ok(), sees);
    }
    let own = ListMembershipsRequest { user_id: bob, ..Default::default() };
    assert_denied(node.members().list_memberships(principal(cid, own)).await);
}

#[tokio::test]
async fn roles_decide_who_may_what() {
    let (node, [ann, bob, cid, dan]) = with_users_who_add().await;
    let group = public_group(&node, ann, JoinPolicy::Open).await;
    add_as(&node, ann, group, &[bob, cid]).await.unwrap();
    assert_denied(add_as(&node, cid, group, &[dan]).await);
    assert_denied(set_role(&node, bob, group, bob, Role::Admin).await);
    assert_eq!(set_role(&node, ann, group, bob, Role::Admin).await.unwrap().role(), Role::Admin);
    rename(&node, bob, group).await.unwrap();
    assert_denied(rename(&node, cid, group).await);
    let dismiss = DismissGroupRequest { group_id: group, ..Default::default() };
    assert_denied(node.groups().dismiss_group(principal(bob, dismiss)).await);
    assert_denied(remove_as(&node, bob, to_remove(group, &[bob])).await);
    assert_eq!(remove_as(&node, bob, to_remove(group, &[cid, dan])).await.unwrap(), [cid]);
}

#[tokio::test]
async fn a85_owner_leaves_after_a_transfer() {
    let (node, [ann, bob, cid]) = with_users_who_add().await;
    let group = public_group(&node, ann, JoinPolicy::Open).await;
    join(&node, group, bob, "").await.unwrap();
    assert_forbidden(leave(&node, group, ann).await);
    assert_forbidden(remove_as(&node, ann, to_remove(group, &[ann])).await);
    assert_forbidden(set_role(&node, ann, group, ann, Role::Member).await);
    assert_not_found(transfer(&node, ann, group, cid).await);
    assert_denied(transfer(&node, bob, group, bob).await);
    transfer(&node, ann, group, bob).await.unwrap();
    assert_eq!(members(&node, group).await, [(ann, Role::Admin), (bob, Role::Owner)]);
    leave(&node, group, ann).await.unwrap();
    assert_eq!(roster(&node, group).await.owner_id, bob);
}

#[tokio::test]
async fn mute_and_remark_are_part_of_the_member() {
    let (node, [ann, bob]) = with_users_who_add().await;
    let group = public_group(&node, ann, JoinPolicy::Open).await;
    join(&node, group, bob, "").await.unwrap();
    let mute_time = Some(Timestamp { seconds: 4_000_000_000, nanos: 0 });
    let mute =
        |mute_time| MuteMemberRequest { group_id: group, user_id: bob, mute_time, ..Default::default() };
    let muted = node.members().mute_member(principal(ann, mute(mute_time))).await.unwrap().into_inner();
    assert_eq!(muted.member.unwrap().mute_time, mute_time);
    assert_denied(node.members().mute_member(principal(bob, mute(None))).await);
    let all = MuteGroupRequest { group_id: group, mute_time, ..Default::default() };
    node.members().mute_group(principal(ann, all)).await.unwrap();
    assert_eq!(roster(&node, group).await.mute_time, mute_time);
    let remark =
        SetMemberRemarkRequest { group_id: group, user_id: bob, remark: "Bo".into(), ..Default::default() };
    node.members().set_member_remark(principal(bob, remark)).await.unwrap();
    let request = GetMemberRequest { group_id: group, user_id: bob, consistency: None };
    let member = node.members().get_member(request).await.unwrap().into_inner().member.unwrap();
    assert_eq!((member.remark.as_str(), member.mute_time), ("Bo", mute_time));
}

#[tokio::test]
async fn members_are_listed_by_pages_and_by_role() {
    let (node, users) = with_users_who_add::<5>().await;
    let group = public_group(&node, users[0], JoinPolicy::Open).await;
    add_as(&node, users[0], group, &users[1..]).await.unwrap();
    set_role(&node, users[0], group, users[3], Role::Admin).await.unwrap();
    let listed = all_pages(async |page_token| {
        let request = ListMembersRequest { group_id: group, page_size: 2, page_token, ..Default::default() };
        let page = node.members().list_members(request).await?.into_inner();
        Ok((page.members, page.next_page_token))
    });
    let listed: Vec<i64> = listed.await.unwrap().iter().map(|member| member.user_id).collect();
    let mut expected = users.to_vec();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    let admins = ListMembersRequest { group_id: group, least_role: Role::Admin.into(), ..Default::default() };
    let admins = node.members().list_members(admins).await.unwrap().into_inner().members;
    assert_eq!(admins.len(), 2);
}

#[tokio::test]
async fn memberships_are_answered_in_order() {
    let (node, [ann, bob, cid]) = with_users_who_add().await;
    let group = public_group(&node, ann, JoinPolicy::Open).await;
    join(&node, group, bob, "").await.unwrap();
    let request =
        BatchIsMemberRequest { group_id: group, user_ids: vec![cid, bob, ann, cid], consistency: None };
    let results = node.members().batch_is_member(request).await.unwrap().into_inner().results;
    let roles: Vec<_> = results.into_iter().map(|one| (one.user_id, one.result.unwrap())).collect();
    let role = |role: Role| member_result::Result::Role(role.into());
    let none = role(Role::Unspecified);
    assert_eq!(
        roles,
        [(cid, none.clone()), (bob, role(Role::Member)), (ann, role(Role::Owner)), (cid, none)]
    );
}

#[tokio::test]
async fn groups_in_common_are_those_of_both() {
    let (node, [ann, bob]) = with_users_who_add().await;
    let mut groups = Vec::new();
    for _ in 0..4 {
        groups.push(public_group(&node, ann, JoinPolicy::Open).await);
    }
    for group in &groups[1..3] {
        join(&node, *group, bob, "").await.unwrap();
    }
    let own = public_group(&node, bob, JoinPolicy::Open).await;
    let request = ListCommonGroupsRequest { user_id: bob, other_id: ann, ..Default::default() };
    let common =
        node.members().list_common_groups(principal(bob, request)).await.unwrap().into_inner().group_ids;
    assert_eq!(common, groups[1..3]);
    let count = CountMembershipsRequest { user_id: bob, consistency: None };
    assert_eq!(node.members().count_memberships(count).await.unwrap().into_inner().count, 3);
    assert!(groups_of(&node, bob).await.contains(&own));
}

#[tokio::test]
async fn changes_since_a_version_are_returned() {
    let (node, users) = with_users_who_add::<8>().await;
    let group = public_group(&node, users[0], JoinPolicy::Open).await;
    add_as(&node, users[0], group, &users[1..5]).await.unwrap();
    let known_version = roster(&node, group).await.version;
    add_as(&node, users[0], group, &users[5..]).await.unwrap();
    leave(&node, group, users[3]).await.unwrap();
    let (mut came, mut left, mut page_token) = (Vec::new(), Vec::new(), String::new());
    let version = loop {
        let request = SyncMembersRequest { group_id: group, known_version, page_size: 2, page_token };
        let page = node.members().sync_members(request).await.unwrap().into_inner();
        assert!(!page.full_list_needed);
        came.extend(page.members.iter().map(|member| member.user_id));
        left.extend(page.left_user_ids);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break page.version;
        }
    };
    came.sort_unstable();
    let mut expected = users[5..].to_vec();
    expected.sort_unstable();
    assert_eq!((came, left), (expected, vec![users[3]]));
    assert_eq!(version, roster(&node, group).await.version);
    let ahead = SyncMembersRequest { group_id: group, known_version: version + 1, ..Default::default() };
    let answer = node.members().sync_members(ahead).await.unwrap().into_inner();
    assert!(answer.full_list_needed && answer.members.is_empty());
}

#[tokio::test]
async fn bad_input_is_refused_by_the_name_of_the_field() {
    let (node, [ann]) = with_users_who_add().await;
    let group = public_group(&node, ann, JoinPolicy::Open).await;
    assert_invalid(add_as(&node, ann, group, &[]).await, "user_ids");
    assert_invalid(set_role(&node, ann, group, ann, Role::Owner).await, "role");
    let remark = "é".repeat(65);
    let request = SetMemberRemarkRequest { group_id: group, user_id: ann, remark, ..Default::default() };
    assert_invalid(node.members().set_member_remark(request).await, "remark");
    assert_not_found(add_as(&node, ann, group, &[987_654_321]).await);
    assert_not_found(add_as(&node, ann, 987_654_321, &[ann]).await);
}

#[tokio::test]
async fn group_friends_are_for_who_sees_the_group() {
    let (node, [ann, bob, cid, dan]) = with_users_who_add().await;
    for friend in [bob, cid, dan] {
        relation_calls::follow(&node, ann, friend).await.unwrap();
        relation_calls::follow(&node, friend, ann).await.unwrap();
    }
    let group = private_group(&node, bob, JoinPolicy::Invite).await;
    add_as(&node, bob, group, &[ann, dan]).await.unwrap();
    let request =
        |user_id| relation::ListFriendsInGroupRequest { user_id, group_id: group, ..Default::default() };
    let page =
        node.relations().list_friends_in_group(principal(ann, request(ann))).await.unwrap().into_inner();
    let mut friends = page.user_ids;
    friends.sort_unstable();
    assert_eq!((friends, page.partial), (vec![bob, dan], true));
    assert_denied(node.relations().list_friends_in_group(principal(cid, request(cid))).await);
    assert_denied(node.relations().list_friends_in_group(principal(bob, request(ann))).await);
}

#[tokio::test]
async fn deleted_user_leaves_and_hands_over_groups() {
    let (node, [ann, bob, cid]) = with_users_who_add().await;
    let (group, lone) =
        (public_group(&node, ann, JoinPolicy::Open).await, public_group(&node, ann, JoinPolicy::Open).await);
    add_as(&node, ann, group, &[bob, cid]).await.unwrap();
    set_role(&node, ann, group, cid, Role::Admin).await.unwrap();
    node.delete_user(ann).await;
    until(async || groups_of(&node, ann).await.is_empty()).await;
    assert_eq!(members(&node, group).await, [(bob, Role::Member), (cid, Role::Owner)]);
    let left = roster(&node, lone).await;
    assert_eq!((left.count, left.owner_id), (0, 0));
}

#[tokio::test]
async fn a84_a_full_group_takes_no_member() {
    let (node, [ann, bob, cid]) = node_with_users(|config| config.members.members_max = 2).await;
    let group = public_group(&node, ann, JoinPolicy::Open).await;
    join(&node, group, bob, "").await.unwrap();
    assert_forbidden(join(&node, group, cid, "").await);
}
