//! Users banned from groups. Member changes write the bans, in their transaction.

use kith_store::{Ban, BanRow, Bans, GroupId, MemberKey, Timestamp, UserId};
use rusqlite::{Connection, Row, params};

use crate::{
    error::{Failure, corrupt},
    row::{group_id, moment, size, user_id},
    statement::{all, first, run},
};

macro_rules! select {
    () => {
        "SELECT group_id, user_id, banned_by, since_ms, until_ms FROM bans"
    };
}

/// Uses the primary key.
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
/// On conflict, it replaces a ban with another end.
const PUT: &str = "INSERT OR REPLACE INTO bans (group_id, user_id, banned_by, since_ms, until_ms)
    VALUES (?1, ?2, ?3, ?4, ?5)";
/// Uses the primary key.
pub(crate) const REMOVE: &str = "DELETE FROM bans WHERE group_id = ?1 AND user_id = ?2";

/// Finds a user's ban that is in force.
pub(crate) fn find(connection: &Connection, key: MemberKey, now: Timestamp) -> Result<Option<Ban>, Failure> {
    first(connection, BY_KEY, [key.group.get(), key.user.get(), now.0], ban_of)
}

/// Lists some of a group's bans that are in force, by rising user id.
pub(crate) fn list(
    connection: &Connection,
    group: GroupId,
    after: Option<UserId>,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<Ban>, Failure> {
    let after = after.map_or(0, UserId::get);
    all(connection, LIST, [group.get(), after, now.0, size(limit)], ban_of)
}

/// These users' bans that are in force. They are not counted.
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

/// Adds the number of the group's bans to `bans`. Removes expired bans first, so that they do not accumulate.
pub(crate) fn with_count(
    connection: &Connection,
    group: GroupId,
    bans: Bans,
    now: Timestamp,
) -> Result<Bans, Failure> {
    run(connection, EXPIRE, [group.get(), now.0])?;
    let count = connection.prepare_cached(COUNT)?.query_row([group.get()], |row| row.get(0))?;
    Ok(Bans { count, ..bans })
}

/// Writes the bans that were made, and removes those that were ended.
pub(crate) fn put(connection: &Connection, rows: &[BanRow]) -> Result<(), Failure> {
    for BanRow { ban, live } in rows {
        let (group, user) = (ban.key.group.get(), ban.key.user.get());
        if *live {
            let row = params![group, user, ban.by.map(UserId::get), ban.since.0, ban.until.map(|at| at.0)];
            run(connection, PUT, row)?;
        } else {
            run(connection, REMOVE, [group, user])?;
        }
    }
    Ok(())
}

fn ban_of(row: &Row<'_>) -> Result<Ban, Failure> {
    let (group, user) = (group_id(row, 0, "bans.group_id")?, user_id(row, 1, "bans.user_id")?);
    let by = row.get::<_, Option<i64>>(2)?.map(UserId::new).transpose();
    Ok(Ban {
        key: MemberKey { group, user },
        by: by.map_err(|_| corrupt("bans.banned_by"))?,
        since: Timestamp(row.get(3)?),
        until: moment(row, 4)?,
    })
}
