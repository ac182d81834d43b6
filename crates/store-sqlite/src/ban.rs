//! Bans of users from groups. Bans are written by the changes of members, in their transaction.

use kith_store::{Ban, BanRow, Bans, GroupId, MemberKey, Timestamp, UserId};
use rusqlite::{Connection, Row, params};

use crate::{
    error::{Failure, corrupt},
    row::size,
};

macro_rules! select {
    () => {
        "SELECT group_id, user_id, banned_by, since_ms, until_ms FROM bans"
    };
}

/// Primary key.
pub(crate) const BY_KEY: &str =
    concat!(select!(), " WHERE group_id = ?1 AND user_id = ?2 AND (until_ms IS NULL OR until_ms > ?3)");
/// Primary key, in order.
pub(crate) const LIST: &str = concat!(
    select!(),
    " WHERE group_id = ?1 AND user_id > ?2 AND (until_ms IS NULL OR until_ms > ?3) ORDER BY user_id LIMIT ?4"
);
/// Index `bans_user` alone.
pub(crate) const GROUPS: &str =
    "SELECT group_id FROM bans WHERE user_id = ?1 AND group_id > ?2 ORDER BY group_id LIMIT ?3";
/// Primary key, its first column.
pub(crate) const COUNT: &str = "SELECT count(*) FROM bans WHERE group_id = ?1";
/// Primary key, its first column.
pub(crate) const EXPIRE: &str = "DELETE FROM bans WHERE group_id = ?1 AND until_ms <= ?2";
/// On conflict: a ban with another end.
const PUT: &str = "INSERT OR REPLACE INTO bans (group_id, user_id, banned_by, since_ms, until_ms)
    VALUES (?1, ?2, ?3, ?4, ?5)";
/// Primary key.
pub(crate) const REMOVE: &str = "DELETE FROM bans WHERE group_id = ?1 AND user_id = ?2";

/// The ban of a user that is in force.
pub(crate) fn find(connection: &Connection, key: MemberKey, now: Timestamp) -> Result<Option<Ban>, Failure> {
    let mut read = connection.prepare_cached(BY_KEY)?;
    let mut rows = read.query(params![key.group.get(), key.user.get(), now.0])?;
    rows.next()?.map(ban_of).transpose()
}

/// Some of the bans of a group that are in force, by rising user id.
pub(crate) fn list(
    connection: &Connection,
    group: GroupId,
    after: Option<UserId>,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<Ban>, Failure> {
    let mut read = connection.prepare_cached(LIST)?;
    let after = after.map_or(0, UserId::get);
    let mut rows = read.query(params![group.get(), after, now.0, size(limit)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(ban_of(row)?);
    }
    Ok(found)
}

/// Some of the groups that a user is banned from, by rising id.
pub(crate) fn groups(
    connection: &Connection,
    user: UserId,
    after: Option<GroupId>,
    limit: usize,
) -> Result<Vec<GroupId>, Failure> {
    let mut read = connection.prepare_cached(GROUPS)?;
    let mut rows = read.query(params![user.get(), after.map_or(0, GroupId::get), size(limit)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(GroupId::new(row.get(0)?).map_err(|_| corrupt("bans.group_id"))?);
    }
    Ok(found)
}

/// The bans of these users that are in force. They are not counted.
pub(crate) fn of_users(
    connection: &Connection,
    group: GroupId,
    users: &[UserId],
    now: Timestamp,
) -> Result<Bans, Failure> {
    let mut named = Vec::new();
    for user in users {
        named.extend(find(connection, MemberKey { group, user: *user }, now)?);
    }
    Ok(Bans { named, count: 0 })
}

/// The same, with the number of bans of the group. Removes expired ones first, so that they do not accumulate.
pub(crate) fn with_count(
    connection: &Connection,
    group: GroupId,
    bans: Bans,
    now: Timestamp,
) -> Result<Bans, Failure> {
    connection.prepare_cached(EXPIRE)?.execute(params![group.get(), now.0])?;
    let count = connection.prepare_cached(COUNT)?.query_row([group.get()], |row| row.get(0))?;
    Ok(Bans { count, ..bans })
}

/// Writes the bans that were made, and removes those that were ended.
pub(crate) fn put(connection: &Connection, rows: &[BanRow]) -> Result<(), Failure> {
    for BanRow { ban, live } in rows {
        let (group, user) = (ban.key.group.get(), ban.key.user.get());
        if *live {
            let row = params![group, user, ban.by.map(UserId::get), ban.since.0, ban.until.map(|at| at.0)];
            connection.prepare_cached(PUT)?.execute(row)?;
        } else {
            connection.prepare_cached(REMOVE)?.execute(params![group, user])?;
        }
    }
    Ok(())
}

fn ban_of(row: &Row<'_>) -> Result<Ban, Failure> {
    let user = |id| UserId::new(id).map_err(|_| corrupt("bans.user_id"));
    let group = GroupId::new(row.get(0)?).map_err(|_| corrupt("bans.group_id"))?;
    Ok(Ban {
        key: MemberKey { group, user: user(row.get(1)?)? },
        by: row.get::<_, Option<i64>>(2)?.map(user).transpose()?,
        since: Timestamp(row.get(3)?),
        until: row.get::<_, Option<i64>>(4)?.map(Timestamp),
    })
}
