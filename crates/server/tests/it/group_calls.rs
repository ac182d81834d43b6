//! Group and member calls that tests share. A service makes the calls, except calls that only a user can
//! make.

use kith_proto::{
    group::v1::{self as groups, Group, JoinPolicy, Visibility},
    member::v1::*,
};
use kith_server::config::{AddedByUsers, Config};
use tonic::Status;

use crate::{
    node::{Called, TestNode, principal, update_of_group},
    relation_calls::node_with_users,
};

/// Makes a group with this visibility and join policy.
pub fn chess(visibility: Visibility, join_policy: JoinPolicy) -> Group {
    Group {
        name: "Chess".into(),
        visibility: visibility.into(),
        join_policy: join_policy.into(),
        ..Default::default()
    }
}

/// Makes a group as a user, who owns it then.
pub async fn make(node: &TestNode, owner: i64, group: Group) -> i64 {
    let request = groups::CreateGroupRequest { group: Some(group), ..Default::default() };
    node.groups().create_group(principal(owner, request)).await.unwrap().into_inner().group.unwrap().group_id
}

pub async fn public_group(node: &TestNode, owner: i64, join_policy: JoinPolicy) -> i64 {
    make(node, owner, chess(Visibility::Public, join_policy)).await
}

pub async fn private_group(node: &TestNode, owner: i64, join_policy: JoinPolicy) -> i64 {
    make(node, owner, chess(Visibility::Private, join_policy)).await
}

/// Creates a public group that shows new members its earlier messages.
pub async fn group_with_history(node: &TestNode, owner: i64) -> i64 {
    let group = chess(Visibility::Public, JoinPolicy::Open);
    make(node, owner, Group { history_for_new_members: true, ..group }).await
}

/// Creates a public group with these members besides the owner. If there are any, its first message is the
/// event that they joined.
pub async fn chat(node: &TestNode, owner: i64, members: &[i64]) -> i64 {
    let group = public_group(node, owner, JoinPolicy::Open).await;
    if !members.is_empty() {
        add(node, group, members).await;
    }
    group
}

/// Like [`chat`], but also returns the conversation's id.
pub async fn chat_with_id(node: &TestNode, owner: i64, members: &[i64]) -> (i64, String) {
    let group = chat(node, owner, members).await;
    (group, format!("g{group}"))
}

pub async fn add(node: &TestNode, group_id: i64, members: &[i64]) {
    let request = AddMembersRequest { group_id, user_ids: members.to_vec(), ..Default::default() };
    node.members().add_members(request).await.unwrap();
}

/// Adds users as a user.
pub async fn add_as(node: &TestNode, by: i64, group_id: i64, user_ids: &[i64]) -> Called<AddMembersResponse> {
    let request = AddMembersRequest { group_id, user_ids: user_ids.to_vec(), ..Default::default() };
    Ok(node.members().add_members(principal(by, request)).await?.into_inner())
}

/// Starts a node whose users may add all others.
pub async fn with_users_who_add<const N: usize>() -> (TestNode, [i64; N]) {
    node_with_users(adding_all).await
}

/// Lets users add all others.
pub fn adding_all(config: &mut Config) {
    config.members.added_by_users = AddedByUsers::Everybody;
}

pub fn to_remove(group_id: i64, user_ids: &[i64]) -> RemoveMembersRequest {
    RemoveMembersRequest { group_id, user_ids: user_ids.to_vec(), ..Default::default() }
}

/// Removes or bans users as a user. Returns the users who were members.
pub async fn remove_as(node: &TestNode, by: i64, request: RemoveMembersRequest) -> Result<Vec<i64>, Status> {
    Ok(node.members().remove_members(principal(by, request)).await?.into_inner().user_ids)
}

pub async fn join(node: &TestNode, group_id: i64, user_id: i64) -> Result<Member, Status> {
    let request = JoinRequest { group_id, user_id, ..Default::default() };
    Ok(node.members().join(principal(user_id, request)).await?.into_inner().member.unwrap())
}

pub async fn leave(node: &TestNode, group_id: i64, user_id: i64) {
    let request = LeaveRequest { group_id, user_id, ..Default::default() };
    node.members().leave(principal(user_id, request)).await.unwrap();
}

pub async fn remove(node: &TestNode, group_id: i64, user_id: i64) {
    node.members().remove_members(to_remove(group_id, &[user_id])).await.unwrap();
}

pub async fn set_role(node: &TestNode, group_id: i64, user_id: i64, role: Role) {
    let request = SetRoleRequest { group_id, user_id, role: role.into(), ..Default::default() };
    node.members().set_role(request).await.unwrap();
}

/// Adds a user as an admin.
pub async fn make_admin(node: &TestNode, group_id: i64, user_id: i64) {
    add(node, group_id, &[user_id]).await;
    set_role(node, group_id, user_id, Role::Admin).await;
}

pub async fn mute(node: &TestNode, group_id: i64, user_id: i64, until: Option<i64>) {
    let mute_time = until.map(|seconds| prost_types::Timestamp { seconds, nanos: 0 });
    let request = MuteMemberRequest { group_id, user_id, mute_time, ..Default::default() };
    node.members().mute_member(request).await.unwrap();
}

pub async fn mute_all(node: &TestNode, group_id: i64, until: Option<i64>) {
    let mute_time = until.map(|seconds| prost_types::Timestamp { seconds, nanos: 0 });
    let request = MuteGroupRequest { group_id, mute_time, ..Default::default() };
    node.members().mute_group(request).await.unwrap();
}

pub async fn rename(node: &TestNode, group_id: i64, name: &str) {
    let group = Group { group_id, name: name.to_owned(), ..Default::default() };
    node.groups().update_group(update_of_group(group, &["name"])).await.unwrap();
}

pub async fn transfer(node: &TestNode, group_id: i64, owner_id: i64) {
    let request = groups::TransferGroupRequest { group_id, owner_id, ..Default::default() };
    node.groups().transfer_group(request).await.unwrap();
}

pub async fn dismiss(node: &TestNode, by: i64, group_id: i64) {
    let request = groups::DismissGroupRequest { group_id, ..Default::default() };
    node.groups().dismiss_group(principal(by, request)).await.unwrap();
}

/// Returns a group's members with their roles.
pub async fn members(node: &TestNode, group_id: i64) -> Vec<(i64, Role)> {
    let request = ListMembersRequest { group_id, ..Default::default() };
    let page = node.members().list_members(request).await.unwrap().into_inner();
    page.members.iter().map(|member| (member.user_id, member.role())).collect()
}

pub async fn is_in(node: &TestNode, group_id: i64, user_id: i64) -> bool {
    let request = GetMemberRequest { group_id, user_id, consistency: None };
    node.members().get_member(request).await.is_ok()
}

pub async fn roster(node: &TestNode, group_id: i64) -> Roster {
    let request = CountMembersRequest { group_id, consistency: None };
    node.members().count_members(request).await.unwrap().into_inner().roster.unwrap()
}

pub async fn groups_of(node: &TestNode, user_id: i64) -> Vec<i64> {
    let request = ListMembershipsRequest { user_id, page_size: 100, ..Default::default() };
    node.members().list_memberships(request).await.unwrap().into_inner().group_ids
}
