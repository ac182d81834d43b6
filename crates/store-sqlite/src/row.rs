//! Rows to records. Columns are read by index, in the order of the `select!` of their domain.

use std::sync::Arc;

use kith_store::{
    Block, Edge, Follow, Gender, Group, GroupId, GroupType, JoinPolicy, Member, MemberKey, MemberRow, Params,
    Permissions, ReceiptVisibility, Role, Roster, Seq, Stays, StoreError, Stored, Text, Timestamp, User,
    UserId, Version, Visibility,
};
use rusqlite::{Row, Rows, types::ValueRef};

use crate::error::{Failure, corrupt, internal};

/// A user, living or deleted.
pub(crate) fn user_of(row: &Row<'_>) -> Result<Stored<User>, Failure> {
    let version = version(row, 1)?;
    if row.get(2)? {
        return Ok(Stored::Deleted(version));
    }
    Ok(Stored::Live(Arc::new(User {
        id: UserId::new(row.get(0)?).map_err(|_| corrupt("users.id"))?,
        version,
        user_name: text(row, 3)?,
        nick_name: text(row, 4)?,
        email: text(row, 5)?,
        phone: text(row, 6)?,
        gender: gender(row.get(7)?)?,
        age: row.get(8)?,
        region: text(row, 9)?,
        icon: text(row, 10)?,
        params: params(row, 11)?,
        created: Timestamp(row.get(12)?),
        updated: Timestamp(row.get(13)?),
    })))
}

/// A group, living or deleted.
pub(crate) fn group_of(row: &Row<'_>) -> Result<Stored<Group>, Failure> {
    let version = version(row, 1)?;
    if row.get(2)? {
        return Ok(Stored::Deleted(version));
    }
    let creator = row.get::<_, Option<i64>>(10)?.map(UserId::new).transpose();
    Ok(Stored::Live(Arc::new(Group {
        id: GroupId::new(row.get(0)?).map_err(|_| corrupt("groups.id"))?,
        version,
        name: text(row, 3)?,
        tags: serde_json::from_str(str(row, 4)?).map_err(|_| corrupt("groups.tags"))?,
        kind: kind(row.get(5)?)?,
        visibility: visibility(row.get(6)?)?,
        join_policy: join_policy(row.get(7)?)?,
        history_for_new_members: row.get(8)?,
        receipts: ReceiptVisibility::of(row.get(13)?).ok_or_else(|| corrupt("groups.receipts"))?,
        params: params(row, 9)?,
        creator: creator.map_err(|_| corrupt("groups.creator"))?,
        created: Timestamp(row.get(11)?),
        updated: Timestamp(row.get(12)?),
    })))
}

/// The two users.
pub(crate) fn edge_of(row: &Row<'_>) -> Result<Edge, Failure> {
    let user = |at| Ok::<_, Failure>(UserId::new(row.get(at)?).map_err(|_| corrupt("the user of an edge"))?);
    Ok(Edge::new(user(0)?, user(1)?).map_err(|_| corrupt("an edge"))?)
}

/// A follow, living or a stub: with its former moments then.
pub(crate) fn follow_of(row: &Row<'_>) -> Result<Follow, Failure> {
    let (since, placed) = (Timestamp(row.get(4)?), Timestamp(row.get(5)?));
    Ok(Follow { edge: edge_of(row)?, version: version(row, 2)?, since, placed })
}

/// The settings of a user for another one, existing or removed.
pub(crate) fn block_of(row: &Row<'_>) -> Result<Stored<Block>, Failure> {
    let version = version(row, 2)?;
    if row.get(3)? {
        return Ok(Stored::Deleted(version));
    }
    let moment = |at| Ok::<_, Failure>(row.get::<_, Option<i64>>(at)?.map(Timestamp));
    let permissions = row.get::<_, Option<u32>>(5)?.map(Permissions::new).transpose();
    Ok(Stored::Live(Arc::new(Block {
        edge: edge_of(row)?,
        version,
        blocked: moment(4)?,
        permissions: permissions.map_err(|_| corrupt("blocks.permissions"))?,
        do_not_disturb: moment(6)?,
        remark: text(row, 7)?,
        updated: Timestamp(row.get(8)?),
    })))
}

/// A member, in the group or not any more.
pub(crate) fn member_of(row: &Row<'_>) -> Result<MemberRow, Failure> {
    let group = GroupId::new(row.get(0)?).map_err(|_| corrupt("members.group_id"))?;
    let user = UserId::new(row.get(1)?).map_err(|_| corrupt("members.user_id"))?;
    let member = Member {
        key: MemberKey { group, user },
        version: version(row, 2)?,
        role: Role::of(row.get(4)?).ok_or_else(|| corrupt("members.role"))?,
        ordinal: row.get(5)?,
        remark: text(row, 6)?,
        muted_until: row.get::<_, Option<i64>>(7)?.map(Timestamp),
        joined: Timestamp(row.get(8)?),
        from_seq: row.get(9)?,
        joined_seq: row.get(10)?,
    };
    let earlier = earlier_of(row.get_ref(13)?)?;
    let stays = Stays { left_seq: row.get(11)?, first_seq: row.get(12)?, earlier };
    Ok(MemberRow { member, live: row.get(3)?, stays })
}

/// Earlier stays in the form of a column: eight bytes for each number, first and last alternating. NULL: none.
pub(crate) fn earlier_bytes(Stays { earlier, .. }: &Stays) -> Option<Vec<u8>> {
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

/// A roster.
pub(crate) fn roster_of(row: &Row<'_>) -> Result<(GroupId, Roster), Failure> {
    let owner = row.get::<_, Option<i64>>(4)?.map(UserId::new).transpose();
    let roster = Roster {
        version: version(row, 1)?,
        count: row.get(2)?,
        ordinals: row.get(3)?,
        owner: owner.map_err(|_| corrupt("rosters.owner"))?,
        muted_until: row.get::<_, Option<i64>>(5)?.map(Timestamp),
    };
    Ok((GroupId::new(row.get(0)?).map_err(|_| corrupt("rosters.id"))?, roster))
}

/// Living users, in the order of the rows.
pub(crate) fn users_of(rows: Rows<'_>) -> Result<Vec<User>, Failure> {
    living(rows, user_of)
}

/// Living groups, in the order of the rows.
pub(crate) fn groups_of(rows: Rows<'_>) -> Result<Vec<Group>, Failure> {
    living(rows, group_of)
}

/// Living follows, in the order of the rows.
pub(crate) fn follows_of(mut rows: Rows<'_>) -> Result<Vec<Follow>, Failure> {
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(follow_of(row)?);
    }
    Ok(found)
}

/// Existing settings of users for others, in the order of the rows.
pub(crate) fn blocks_of(rows: Rows<'_>) -> Result<Vec<Block>, Failure> {
    living(rows, block_of)
}

/// A user with its id, living or deleted.
pub(crate) fn stored_user(row: &Row<'_>) -> Result<(UserId, Stored<User>), Failure> {
    Ok((UserId::new(row.get(0)?).map_err(|_| corrupt("users.id"))?, user_of(row)?))
}

/// A group with its id, living or deleted.
pub(crate) fn stored_group(row: &Row<'_>) -> Result<(GroupId, Stored<Group>), Failure> {
    Ok((GroupId::new(row.get(0)?).map_err(|_| corrupt("groups.id"))?, group_of(row)?))
}

/// A follow with its edge, living or ended.
pub(crate) fn stored_follow(row: &Row<'_>) -> Result<(Edge, Stored<Follow>), Failure> {
    let follow = follow_of(row)?;
    let (edge, version) = (follow.edge, follow.version);
    let live = row.get(3)?;
    Ok((edge, if live { Stored::Live(Arc::new(follow)) } else { Stored::Deleted(version) }))
}

/// The settings of a user for another one with the edge, existing or removed.
pub(crate) fn stored_block(row: &Row<'_>) -> Result<(Edge, Stored<Block>), Failure> {
    Ok((edge_of(row)?, block_of(row)?))
}

/// A member with its key, in the group or not any more.
pub(crate) fn stored_member(row: &Row<'_>) -> Result<(MemberKey, Stored<Member>), Failure> {
    let MemberRow { member, live, .. } = member_of(row)?;
    let (key, version) = (member.key, member.version);
    Ok((key, if live { Stored::Live(Arc::new(member)) } else { Stored::Deleted(version) }))
}

/// Parameters in the form of a column.
pub(crate) fn params_text(params: &Params) -> Result<String, Failure> {
    Ok(serde_json::to_string(params).map_err(|_| internal("parameters cannot be written down"))?)
}

/// A limit in the form of SQLite.
pub(crate) fn size(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn living<T: Clone>(
    mut rows: Rows<'_>,
    of: fn(&Row<'_>) -> Result<Stored<T>, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.extend(of(row)?.live());
    }
    Ok(found)
}

fn version(row: &Row<'_>, at: usize) -> Result<Version, Failure> {
    Ok(Version::new(row.get(at)?).ok_or_else(|| corrupt("version"))?)
}

/// A text; NULL is the empty one.
fn text(row: &Row<'_>, at: usize) -> Result<Text, Failure> {
    Ok(Text::new(str(row, at)?))
}

fn str<'a>(row: &'a Row<'_>, at: usize) -> Result<&'a str, Failure> {
    match row.get_ref(at)? {
        ValueRef::Null => Ok(""),
        value => Ok(value.as_str().map_err(|_| corrupt("a text"))?),
    }
}

fn params(row: &Row<'_>, at: usize) -> Result<Params, Failure> {
    let text = str(row, at)?;
    if text == "{}" {
        return Ok(Params::default());
    }
    Ok(serde_json::from_str(text).map_err(|_| corrupt("params"))?)
}

fn gender(number: i64) -> Result<Gender, StoreError> {
    match number {
        0 => Ok(Gender::Unspecified),
        1 => Ok(Gender::Female),
        2 => Ok(Gender::Male),
        3 => Ok(Gender::Other),
        _ => Err(corrupt("users.gender")),
    }
}

fn kind(number: i64) -> Result<GroupType, StoreError> {
    match number {
        1 => Ok(GroupType::Chat),
        2 => Ok(GroupType::Channel),
        _ => Err(corrupt("groups.kind")),
    }
}

fn visibility(number: i64) -> Result<Visibility, StoreError> {
    match number {
        1 => Ok(Visibility::Public),
        2 => Ok(Visibility::Private),
        _ => Err(corrupt("groups.visibility")),
    }
}

fn join_policy(number: i64) -> Result<JoinPolicy, StoreError> {
    match number {
        1 => Ok(JoinPolicy::Open),
        2 => Ok(JoinPolicy::Approval),
        3 => Ok(JoinPolicy::Code),
        4 => Ok(JoinPolicy::Invite),
        _ => Err(corrupt("groups.join_policy")),
    }
}
