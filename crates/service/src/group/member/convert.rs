//! Members between the wire and the domain. Behind this module all numbers and strings are checked.

use kith_cache::Entry;
use kith_proto::member::v1::{self as wire, member_result::Result as Answer};
use kith_store::{
    Ban, GroupId, MEMBERS_AT_ONCE, Member, MemberChange, MemberChangeEvent, MemberKey, Role, Roster,
    Timestamp, UserId, Version,
};

use crate::{
    error::Error,
    rpc::{
        ids,
        versions::{moment, wire_time},
    },
};

/// A number above every user id, so that a position with it is after all changes with a version.
const AFTER_ALL: i64 = i64::MAX;

/// Where a page of changes begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct SyncPosition {
    /// The page begins after this change.
    pub(super) after: MemberChangeEvent,
    /// The version that the caller knows after the last page.
    pub(super) until: i64,
}

pub(super) fn key(group_id: i64, user_id: i64) -> Result<MemberKey, Error> {
    Ok(MemberKey { group: ids::group(group_id)?, user: ids::user("user_id", user_id)? })
}

/// The user with whose groups those of `user` are compared.
pub(super) fn other_user(user: UserId, other_id: i64) -> Result<UserId, Error> {
    let other = ids::user("other_id", other_id)?;
    if other == user {
        return Err(Error::invalid("other_id", "must be another user"));
    }
    Ok(other)
}

/// A change's users.
pub(super) fn users(ids: &[i64]) -> Result<Vec<UserId>, Error> {
    if ids.is_empty() || ids.len() > MEMBERS_AT_ONCE {
        let why = format!("must be 1 to {MEMBERS_AT_ONCE} ids, not {}", ids.len());
        return Err(Error::invalid("user_ids", &why));
    }
    ids::users("user_ids", ids)
}

/// A role that may be assigned.
pub(super) fn role(number: i32) -> Result<Role, Error> {
    match wire::Role::try_from(number) {
        Ok(wire::Role::Member) => Ok(Role::Member),
        Ok(wire::Role::Admin) => Ok(Role::Admin),
        _ => Err(Error::invalid("role", "must be ROLE_MEMBER or ROLE_ADMIN")),
    }
}

/// The lowest role that a list shows.
pub(super) fn least_role(number: i32) -> Result<Role, Error> {
    match wire::Role::try_from(number) {
        Ok(wire::Role::Unspecified | wire::Role::Member) => Ok(Role::Member),
        Ok(wire::Role::Admin) => Ok(Role::Admin),
        Ok(wire::Role::Owner) => Ok(Role::Owner),
        Err(_) => Err(Error::invalid("least_role", "must be a role")),
    }
}

pub(super) fn role_to_wire(role: Role) -> wire::Role {
    match role {
        Role::Member => wire::Role::Member,
        Role::Admin => wire::Role::Admin,
        Role::Owner => wire::Role::Owner,
    }
}

pub(super) fn member_to_wire(member: &Member) -> wire::Member {
    wire::Member {
        group_id: member.key.group.get(),
        user_id: member.key.user.get(),
        role: role_to_wire(member.role).into(),
        ordinal: member.ordinal,
        remark: member.remark.to_string(),
        mute_time: member.muted_until.map(wire_time),
        join_time: Some(wire_time(member.joined)),
        version: member.version.get(),
    }
}

pub(super) fn roster_to_wire(group: GroupId, roster: &Roster) -> wire::Roster {
    wire::Roster {
        group_id: group.get(),
        version: roster.version.get(),
        count: i64::from(roster.count),
        owner_id: roster.owner.map_or(0, UserId::get),
        mute_time: roster.muted_until.map(wire_time),
    }
}

/// The requested user's role; unspecified: not a member.
pub(super) fn is_member(user: UserId, found: Result<Option<Entry<Member>>, Error>) -> wire::MemberResult {
    let result = match found {
        Ok(Some(entry)) => Answer::Role(role_to_wire(entry.value.role).into()),
        Ok(None) => Answer::Role(wire::Role::Unspecified.into()),
        Err(error) => Answer::Error(error.to_result()),
    };
    wire::MemberResult { user_id: user.get(), result: Some(result) }
}

/// The members' version that the caller knows.
pub(super) fn known_version(number: i64) -> Result<Version, Error> {
    let why = || Error::invalid("known_version", "must not be below 0");
    Version::new(number).ok_or_else(why)
}

/// Where a page of changes begins. `token`: the page token's content; `None`: the first page.
pub(super) fn sync_position(
    token: Option<[i64; 3]>,
    known: Version,
    current: Version,
) -> Result<SyncPosition, Error> {
    let [version, user_id, until] = token.unwrap_or([known.get(), AFTER_ALL, current.get()]);
    let after =
        MemberChangeEvent { version: known_version(version)?, user: ids::user("page_token", user_id)? };
    Ok(SyncPosition { after, until })
}

/// The answer if the changes since the known version are not stored.
pub(super) fn full_list_needed(roster: &Roster) -> wire::SyncMembersResponse {
    wire::SyncMembersResponse {
        version: roster.version.get(),
        full_list_needed: true,
        ..wire::SyncMembersResponse::default()
    }
}

/// When a mute ends.
pub(super) fn mute(time: Option<&prost_types::Timestamp>) -> Result<Option<Timestamp>, Error> {
    time.map(|time| moment("mute_time", time)).transpose()
}

/// The change that a removal requests. That a ban ends in the future is checked only when the ban is made: a
/// request that is repeated after that end must get its first answer.
pub(super) fn removal(request: &wire::RemoveMembersRequest) -> Result<MemberChange, Error> {
    let users = users(&request.user_ids)?;
    let until = request.ban_until.as_ref().map(|time| moment("ban_until", time)).transpose()?;
    match (request.ban, until) {
        (true, until) => Ok(MemberChange::Ban(users, until)),
        (false, None) => Ok(MemberChange::Remove(users)),
        (false, Some(_)) => Err(Error::invalid("ban_until", "must not be given without ban")),
    }
}

pub(super) fn ban_to_wire(ban: &Ban) -> wire::Ban {
    wire::Ban {
        group_id: ban.key.group.get(),
        user_id: ban.key.user.get(),
        banned_by: ban.by.map_or(0, UserId::get),
        ban_time: Some(wire_time(ban.since)),
        until: ban.until.map(wire_time),
    }
}
