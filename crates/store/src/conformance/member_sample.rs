//! Groups, and changes to members, that the cases start from.

use super::sample::{applied, group_id, user_id, write};
use crate::{
    ChangeContext, GroupId, Member, MemberChange, MemberKey, MemberRefusal, MembersUpdated, Role, Roster,
    StoreError, Stored, Stores, UserId, Version, Write,
};

/// The group that most cases use.
pub(super) const GROUP: i64 = 9;
/// A limit above the members in any case.
const ROOM: u32 = 10_000;

pub(super) fn key(group: i64, user: i64) -> MemberKey {
    MemberKey { group: group_id(group), user: user_id(user) }
}

pub(super) fn users(ids: impl IntoIterator<Item = i64>) -> Vec<UserId> {
    ids.into_iter().map(user_id).collect()
}

/// Acts on behalf of a service.
pub(super) const fn service() -> ChangeContext {
    ChangeContext { by: None, members_max: ROOM, bans_max: ROOM, history: false }
}

/// Acts on behalf of this user.
pub(super) fn by(user: i64) -> ChangeContext {
    ChangeContext { by: Some(user_id(user)), ..service() }
}

pub(super) async fn try_change(
    stores: &Stores,
    change: MemberChange,
    terms: ChangeContext,
) -> Result<MembersUpdated, StoreError> {
    stores.members.change_members(group_id(GROUP), change, terms, write()).await.map(applied)
}

/// Makes a change on behalf of a service.
pub(super) async fn change(stores: &Stores, change: MemberChange) -> MembersUpdated {
    try_change(stores, change, service()).await.unwrap()
}

/// Changes another group on behalf of a service.
pub(super) async fn change_of(stores: &Stores, group: i64, change: MemberChange) -> MembersUpdated {
    let write: Write = write();
    applied(stores.members.change_members(group_id(group), change, service(), write).await.unwrap())
}

/// User 1 owns the group, 2 is an admin, the others up to `last` are members.
pub(super) async fn founded(stores: &Stores, last: i64) {
    change(stores, MemberChange::AddFounder(user_id(1))).await;
    for some in users(2..=last).chunks(crate::MEMBERS_AT_ONCE) {
        change(stores, MemberChange::Add(some.to_vec())).await;
    }
    if last > 1 {
        change(stores, MemberChange::SetRole(user_id(2), Role::Admin)).await;
    }
}

pub(super) async fn state(stores: &Stores, group: i64, user: i64) -> Stored<Member> {
    let asked = key(group, user);
    let read = stores.members.members(&[asked]).await.unwrap();
    assert!(read.len() <= 1, "one member was asked for, {} were returned", read.len());
    read.into_iter().next().map_or(Stored::Never, |(key, stored)| {
        assert_eq!(key, asked);
        stored
    })
}

pub(super) async fn member(stores: &Stores, user: i64) -> Member {
    state(stores, GROUP, user).await.live().unwrap()
}

pub(super) async fn roster(stores: &Stores, group: i64) -> Roster {
    let mut rosters = stores.members.rosters(&[group_id(group)]).await.unwrap();
    assert_eq!(rosters.len(), 1);
    rosters.remove(0)
}

/// Lists all the group's members, which are fewer than a page holds, with their roles.
pub(super) async fn roles(stores: &Stores) -> Vec<(i64, Role)> {
    let list = stores.members.member_list(group_id(GROUP), Role::Member, None, 10_000).await.unwrap();
    list.iter().map(|member| (member.key.user.get(), member.role)).collect()
}

/// Lists all members' ids, which are fewer than a page holds.
pub(super) async fn list(stores: &Stores, group: i64) -> Vec<i64> {
    let list = stores.members.member_list(group_id(group), Role::Member, None, 10_000).await.unwrap();
    list.iter().map(|member| member.key.user.get()).collect()
}

/// Lists a user's groups, which are fewer than a page holds.
pub(super) async fn groups(stores: &Stores, user: i64) -> Vec<i64> {
    let groups = stores.members.memberships(user_id(user), None, 1_000).await.unwrap();
    groups.into_iter().map(GroupId::get).collect()
}

/// It was refused for this reason.
pub(super) fn assert_refused<T: std::fmt::Debug>(result: Result<T, StoreError>, why: MemberRefusal) {
    let error = result.unwrap_err();
    assert!(matches!(error, StoreError::Member(refusal) if refusal == why), "{error:?}");
}

/// The user, whether it is in the group, and the version in each member row that a change wrote.
pub(super) fn changed_rows(changed: &MembersUpdated) -> Vec<(i64, bool, Version)> {
    let rows = changed.rows.iter();
    rows.map(|row| (row.member.key.user.get(), row.live, row.member.version)).collect()
}
