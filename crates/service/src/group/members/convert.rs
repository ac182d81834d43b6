//! Members between the wire and the domain. Raw numbers and strings stop here.

use kith_proto::member::v1 as wire;
use kith_store::{
    Ban, GroupId, Invalid, MEMBERS_AT_ONCE, Member, MemberKey, Role, Roster, Timestamp, UserId,
};

use crate::{
    error::Error,
    rpc::versions::{moment, wire_time},
};

/// When a ban that was asked for ends; `None`: with an unban only.
#[derive(Clone, Copy, Debug)]
pub(super) struct BanEnd(pub(super) Option<Timestamp>);

pub(super) fn group(id: i64) -> Result<GroupId, Error> {
    GroupId::new(id).map_err(|why| Error::invalid("group_id", &why))
}

pub(super) fn user(field: &'static str, id: i64) -> Result<UserId, Error> {
    UserId::new(id).map_err(|why| Error::invalid(field, &why))
}

pub(super) fn key(group_id: i64, user_id: i64) -> Result<MemberKey, Error> {
    Ok(MemberKey { group: group(group_id)?, user: user("user_id", user_id)? })
}

/// Those whom one change names.
pub(super) fn users(ids: &[i64]) -> Result<Vec<UserId>, Error> {
    if ids.is_empty() || ids.len() > MEMBERS_AT_ONCE {
        let why = format!("must be 1 to {MEMBERS_AT_ONCE} ids, not {}", ids.len());
        return Err(Error::invalid("user_ids", &Invalid::new(why)));
    }
    ids.iter().map(|id| user("user_ids", *id)).collect()
}

/// A role that may be given.
pub(super) fn role(number: i32) -> Result<Role, Error> {
    match wire::Role::try_from(number) {
        Ok(wire::Role::Member) => Ok(Role::Member),
        Ok(wire::Role::Admin) => Ok(Role::Admin),
        _ => Err(Error::invalid("role", &Invalid::new("must be ROLE_MEMBER or ROLE_ADMIN"))),
    }
}

/// From which role on a list shows members.
pub(super) fn least_role(number: i32) -> Result<Role, Error> {
    match wire::Role::try_from(number) {
        Ok(wire::Role::Unspecified | wire::Role::Member) => Ok(Role::Member),
        Ok(wire::Role::Admin) => Ok(Role::Admin),
        Ok(wire::Role::Owner) => Ok(Role::Owner),
        Err(_) => Err(Error::invalid("least_role", &Invalid::new("must be a role"))),
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

/// Until when somebody is to be silent.
pub(super) fn mute(time: Option<&prost_types::Timestamp>) -> Result<Option<Timestamp>, Error> {
    time.map(|time| moment("mute_time", time)).transpose()
}

/// The ban that comes with a removal, if one does. Whether its end is in the future is decided when it is made: a request that
/// is sent again later has its first answer.
pub(super) fn ban(request: &wire::RemoveMembersRequest) -> Result<Option<BanEnd>, Error> {
    let until = request.ban_until.as_ref().map(|time| moment("ban_until", time)).transpose()?;
    if until.is_some() && !request.ban {
        return Err(Error::invalid("ban_until", &Invalid::new("must not be given without ban")));
    }
    Ok(request.ban.then_some(BanEnd(until)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_role_is_given_but_those_below_the_owner() {
        assert_eq!(role(1).unwrap(), Role::Member);
        assert_eq!(role(2).unwrap(), Role::Admin);
        for wrong in [0, 3, 4, -1] {
            assert!(role(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_change_names_one_to_a_hundred_users() {
        assert!(users(&[]).is_err() && users(&[0]).is_err());
        assert!(users(&vec![1; 100]).is_ok() && users(&vec![1; 101]).is_err());
    }
}
