//! Rows to records. Columns are read by index, in the order in their domain's `select!`.

use std::sync::Arc;

use kith_store::{
    Block, Edge, Follow, Gender, Group, GroupId, GroupType, JoinPolicy, Member, MemberKey, MemberRow, Params,
    Permissions, ReceiptVisibility, Role, Roster, Seq, StayHistory, Stored, Text, Timestamp, User, UserId,
    Version, Visibility,
};
use rusqlite::{Row, types::ValueRef};
use serde::de::DeserializeOwned;

use crate::error::{Failure, corrupt, internal};

/// A user that is not deleted.
pub(crate) fn user_of(row: &Row<'_>) -> Result<User, Failure> {
    Ok(User {
        id: user_id(row, 0, "users.id")?,
        version: version(row, 1)?,
        user_name: text(row, 3)?,
        nick_name: text(row, 4)?,
        email: text(row, 5)?,
        phone: text(row, 6)?,
        gender: Gender::of(row.get(7)?).ok_or_else(|| corrupt("users.gender"))?,
        age: row.get(8)?,
        region: text(row, 9)?,
        icon: text(row, 10)?,
        params: params(row, 11)?,
        created: Timestamp(row.get(12)?),
        updated: Timestamp(row.get(13)?),
    })
}

/// A user with its id, living or deleted.
pub(crate) fn stored_user(row: &Row<'_>) -> Result<(UserId, Stored<User>), Failure> {
    let user = if row.get(2)? { Stored::Deleted(version(row, 1)?) } else { existing(user_of(row)?) };
    Ok((user_id(row, 0, "users.id")?, user))
}

/// A group that is not deleted.
pub(crate) fn group_of(row: &Row<'_>) -> Result<Group, Failure> {
    let creator = row.get::<_, Option<i64>>(10)?.map(UserId::new).transpose();
    Ok(Group {
        id: group_id(row, 0, "groups.id")?,
        version: version(row, 1)?,
        name: text(row, 3)?,
        icon: text(row, 14)?,
        tags: json(row, 4, "groups.tags")?,
        kind: GroupType::of(row.get(5)?).ok_or_else(|| corrupt("groups.kind"))?,
        visibility: Visibility::of(row.get(6)?).ok_or_else(|| corrupt("groups.visibility"))?,
        join_policy: JoinPolicy::of(row.get(7)?).ok_or_else(|| corrupt("groups.join_policy"))?,
        history_for_new_members: row.get(8)?,
        receipts: ReceiptVisibility::of(row.get(13)?).ok_or_else(|| corrupt("groups.receipts"))?,
        params: params(row, 9)?,
        creator: creator.map_err(|_| corrupt("groups.creator"))?,
        created: Timestamp(row.get(11)?),
        updated: Timestamp(row.get(12)?),
    })
}

/// A group with its id, living or deleted.
pub(crate) fn stored_group(row: &Row<'_>) -> Result<(GroupId, Stored<Group>), Failure> {
    let group = if row.get(2)? { Stored::Deleted(version(row, 1)?) } else { existing(group_of(row)?) };
    Ok((group_id(row, 0, "groups.id")?, group))
}

/// Reads the two users.
pub(crate) fn edge_of(row: &Row<'_>) -> Result<Edge, Failure> {
    let user = |at| user_id(row, at, "the user of an edge");
    Ok(Edge::new(user(0)?, user(1)?).map_err(|_| corrupt("an edge"))?)
}

/// A follow, active or a stub: with its former moments then.
pub(crate) fn follow_of(row: &Row<'_>) -> Result<Follow, Failure> {
    let (since, placed) = (Timestamp(row.get(4)?), Timestamp(row.get(5)?));
    Ok(Follow { edge: edge_of(row)?, version: version(row, 2)?, since, placed })
}

/// A follow with its edge, active or ended.
pub(crate) fn stored_follow(row: &Row<'_>) -> Result<(Edge, Stored<Follow>), Failure> {
    let follow = follow_of(row)?;
    let edge = follow.edge;
    Ok((edge, if row.get(3)? { existing(follow) } else { Stored::Deleted(follow.version) }))
}

/// Reads a user's settings for another user, unless they were removed.
pub(crate) fn block_of(row: &Row<'_>) -> Result<Block, Failure> {
    let permissions = row.get::<_, Option<u32>>(5)?.map(Permissions::new).transpose();
    Ok(Block {
        edge: edge_of(row)?,
        version: version(row, 2)?,
        blocked: moment(row, 4)?,
        permissions: permissions.map_err(|_| corrupt("blocks.permissions"))?,
        do_not_disturb: moment(row, 6)?,
        remark: text(row, 7)?,
        updated: Timestamp(row.get(8)?),
    })
}

/// A user's settings for another user with the edge, existing or removed.
pub(crate) fn stored_block(row: &Row<'_>) -> Result<(Edge, Stored<Block>), Failure> {
    let block = if row.get(3)? { Stored::Deleted(version(row, 2)?) } else { existing(block_of(row)?) };
    Ok((edge_of(row)?, block))
}

/// A member, in the group or not any more.
pub(crate) fn member_of(row: &Row<'_>) -> Result<MemberRow, Failure> {
    let member = Member {
        key: MemberKey {
            group: group_id(row, 0, "members.group_id")?,
            user: user_id(row, 1, "members.user_id")?,
        },
        version: version(row, 2)?,
        role: Role::of(row.get(4)?).ok_or_else(|| corrupt("members.role"))?,
        ordinal: row.get(5)?,
        remark: text(row, 6)?,
        muted_until: moment(row, 7)?,
        joined: Timestamp(row.get(8)?),
        from_seq: row.get(9)?,
        joined_seq: row.get(10)?,
    };
    let earlier = earlier_of(row.get_ref(13)?)?;
    let stays = StayHistory { left_seq: row.get(11)?, first_seq: row.get(12)?, earlier };
    Ok(MemberRow { member, live: row.get(3)?, stays })
}

/// Earlier stays as a column: eight bytes for each number, first and last alternating. NULL: none.
pub(crate) fn earlier_bytes(StayHistory { earlier, .. }: &StayHistory) -> Option<Vec<u8>> {
    let numbers = earlier.iter().flat_map(|(first, last)| [*first, *last]);
    (!earlier.is_empty()).then(|| numbers.flat_map(Seq::to_be_bytes).collect())
}

fn earlier_of(column: ValueRef<'_>) -> Result<Vec<(Seq, Seq)>, Failure> {
    let bytes = column.as_blob_or_null().map_err(|_| corrupt("members.earlier"))?.unwrap_or_default();
    let (numbers, []) = bytes.as_chunks::<8>() else { return Err(corrupt("members.earlier").into()) };
    let numbers: Vec<Seq> = numbers.iter().map(|number| Seq::from_be_bytes(*number)).collect();
    let (stays, []) = numbers.as_chunks::<2>() else { return Err(corrupt("members.earlier").into()) };
    Ok(stays.iter().map(|[first, last]| (*first, *last)).collect())
}

/// Reads a roster.
pub(crate) fn roster_of(row: &Row<'_>) -> Result<(GroupId, Roster), Failure> {
    let owner = row.get::<_, Option<i64>>(4)?.map(UserId::new).transpose();
    let roster = Roster {
        version: version(row, 1)?,
        count: row.get(2)?,
        ordinals: row.get(3)?,
        owner: owner.map_err(|_| corrupt("rosters.owner"))?,
        muted_until: moment(row, 5)?,
    };
    Ok((group_id(row, 0, "rosters.id")?, roster))
}

/// A member with its key, in the group or not any more.
pub(crate) fn stored_member(row: &Row<'_>) -> Result<(MemberKey, Stored<Member>), Failure> {
    let MemberRow { member, live, .. } = member_of(row)?;
    let key = member.key;
    Ok((key, if live { existing(member) } else { Stored::Deleted(member.version) }))
}

/// Encodes parameters as a column.
pub(crate) fn params_text(params: &Params) -> Result<String, Failure> {
    Ok(serde_json::to_string(params).map_err(|_| internal("parameters cannot be written down"))?)
}

/// Converts a limit for SQLite.
pub(crate) fn size(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn existing<T>(record: T) -> Stored<T> {
    Stored::Live(Arc::new(record))
}

/// Reads a user id.
pub(crate) fn user_id(row: &Row<'_>, at: usize, column: &'static str) -> Result<UserId, Failure> {
    Ok(UserId::new(row.get(at)?).map_err(|_| corrupt(column))?)
}

/// Reads a group id.
pub(crate) fn group_id(row: &Row<'_>, at: usize, column: &'static str) -> Result<GroupId, Failure> {
    Ok(GroupId::new(row.get(at)?).map_err(|_| corrupt(column))?)
}

/// Reads a value that is stored as JSON.
pub(crate) fn json<T: DeserializeOwned>(
    row: &Row<'_>,
    at: usize,
    column: &'static str,
) -> Result<T, Failure> {
    Ok(serde_json::from_str(str(row, at)?).map_err(|_| corrupt(column))?)
}

/// A time that may be absent.
pub(crate) fn moment(row: &Row<'_>, at: usize) -> Result<Option<Timestamp>, Failure> {
    Ok(row.get::<_, Option<i64>>(at)?.map(Timestamp))
}

/// Reads a record's version.
pub(crate) fn version(row: &Row<'_>, at: usize) -> Result<Version, Failure> {
    Ok(Version::new(row.get(at)?).ok_or_else(|| corrupt("version"))?)
}

/// Reads a text; NULL is the empty text.
pub(crate) fn text(row: &Row<'_>, at: usize) -> Result<Text, Failure> {
    Ok(Text::new(str(row, at)?))
}

fn str<'a>(row: &'a Row<'_>, at: usize) -> Result<&'a str, Failure> {
    match row.get_ref(at)? {
        ValueRef::Null => Ok(""),
        value => Ok(value.as_str().map_err(|_| corrupt("a text"))?),
    }
}

pub(crate) fn params(row: &Row<'_>, at: usize) -> Result<Params, Failure> {
    if str(row, at)? == "{}" {
        return Ok(Params::default());
    }
    json(row, at, "params")
}
