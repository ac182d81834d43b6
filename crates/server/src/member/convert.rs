//! Members between the wire and the domain. Raw numbers and strings stop here.

use kith_proto::member::v1 as wire;
use kith_store::{GroupId, Invalid, MEMBERS_AT_ONCE, Member, MemberKey, Role, Roster, Timestamp, UserId};

use crate::{error::Error, versions::wire_time};

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
    time.map(|time| crate::versions::moment("mute_time", time)).transpose()
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
