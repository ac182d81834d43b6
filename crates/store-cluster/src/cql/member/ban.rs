//! Users banned from a group. Bans are rows in the partition with its members, so that one conditional write
//! decides joins and bans.
//!
//! Invariant: a group that bans a user is in the user's `banned_from`. A ban is noted there before it is
//! written. The note is removed after the ban has ended. Both use the change's version as timestamp. A
//! failure in between may leave a superfluous note, but no ban without a note.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{Ban, BanRow, GroupId, MemberKey, StoreError, Timestamp, UserId, Version};
use scylla::statement::batch::BatchType;

use crate::cql::{
    client::{
        error::malformed,
        row::NamedRow,
        session::{AT_A_TIME, Bound, Statement, values},
    },
    stores::Cql,
};

const ROWS: Statement = Statement::read(
    "SELECT member, joined, muted_until, named FROM %k.members \
     WHERE grp = ? AND kind = 4 AND place = 0 AND member IN ?",
);
const LIST: Statement = Statement::read(
    "SELECT member, joined, muted_until, named FROM %k.members \
     WHERE grp = ? AND kind = 4 AND place = 0 AND member > ? AND muted_until > ? LIMIT ? ALLOW FILTERING",
);
const COUNT: Statement = Statement::read(
    "SELECT count(member) AS bans FROM %k.members \
     WHERE grp = ? AND kind = 4 AND place = 0 AND muted_until > ? ALLOW FILTERING",
);
/// A time to live of 0 means no expiry.
const PUT: Statement = Statement::conditional(
    "INSERT INTO %k.members (joined, muted_until, named, grp, kind, place, member) \
     VALUES (?, ?, ?, ?, 4, 0, ?) USING TTL ?",
);
const REMOVE: Statement =
    Statement::conditional("DELETE FROM %k.members WHERE grp = ? AND kind = 4 AND place = 0 AND member = ?");
const NOTE: Statement =
    Statement::plain("INSERT INTO %k.banned_from (member, grp) VALUES (?, ?) USING TIMESTAMP ?");
const FORGET: Statement =
    Statement::plain("DELETE FROM %k.banned_from USING TIMESTAMP ? WHERE member = ? AND grp = ?");
const GROUPS: Statement =
    Statement::read("SELECT grp FROM %k.banned_from WHERE member = ? AND grp > ? LIMIT ?");
/// The stored end for a ban without an end.
const FOREVER: i64 = i64::MAX;
/// The maximum time to live that a row may have, in seconds: the server refuses more. A longer ban's row does
/// not expire.
const TTL_MAX: i64 = 20 * 365 * 24 * 60 * 60;
/// Seconds for which a ban is kept after its end, because server and node clocks differ.
const TTL_SPARE: i64 = 3_600;
/// Notes in one batch. Each is in its own partition, and servers warn about batches with more partitions.
const BATCHED: usize = 10;

impl Cql {
    /// Reads these users' bans at quorum, including expired bans.
    pub(in crate::cql) async fn bans_of(
        &self,
        group: GroupId,
        users: &[UserId],
    ) -> Result<Vec<Ban>, StoreError> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let users: Vec<i64> = users.iter().map(|user| user.get()).collect();
        let rows = self.client.records(&ROWS, values![group.get(), users]).await?;
        rows.iter().map(|row| ban(group, row)).collect()
    }

    /// Lists up to `limit` bans in a group that end after `now`, by rising user id.
    pub(in crate::cql) async fn list_bans(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Ban>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let after = after.map_or(0, UserId::get);
        let rows = self.client.records(&LIST, values![group.get(), after, now.0, limit]).await?;
        rows.iter().map(|row| ban(group, row)).collect()
    }

    /// Counts the bans in a group that end after `now`. Scans all bans, so it is only called when users are
    /// banned.
    pub(in crate::cql) async fn count_bans(&self, group: GroupId, now: Timestamp) -> Result<u32, StoreError> {
        let rows = self.client.records(&COUNT, values![group.get(), now.0]).await?;
        rows.first().map_or(Ok(0), |row| row.count("bans"))
    }

    /// Lists up to `limit` groups that may have banned a user, by rising id.
    pub(in crate::cql) async fn groups_that_banned(
        &self,
        user: UserId,
        after: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<GroupId>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let rows =
            self.client.records(&GROUPS, values![user.get(), after.map_or(0, GroupId::get), limit]).await?;
        rows.iter().map(|row| GroupId::new(row.some_number("grp")?).map_err(|_| malformed("grp"))).collect()
    }

    /// Notes the bans that are about to be written, each with its version.
    pub(in crate::cql) async fn note_bans(&self, changes: &[(Version, BanRow)]) -> Result<(), StoreError> {
        let made = changes.iter().filter(|(_, row)| row.live);
        let parts = made.map(|(version, BanRow { ban, .. })| {
            let MemberKey { group, user } = ban.key;
            Bound(&NOTE, values![user.get(), group.get(), version.get()])
        });
        self.write_notes(parts.collect()).await
    }

    /// Removes the notes about bans that have ended.
    pub(in crate::cql) async fn forget_bans(&self, changes: &[(Version, BanRow)]) -> Result<(), StoreError> {
        let ended = changes.iter().filter(|(_, row)| !row.live);
        let parts = ended.map(|(version, BanRow { ban, .. })| {
            let MemberKey { group, user } = ban.key;
            Bound(&FORGET, values![version.get(), user.get(), group.get()])
        });
        self.write_notes(parts.collect()).await
    }

    async fn write_notes(&self, parts: Vec<Bound>) -> Result<(), StoreError> {
        let put = |parts: &[Bound]| self.client.batch(BatchType::Unlogged, parts.to_vec(), None);
        stream::iter(parts.chunks(BATCHED)).map(put).buffer_unordered(AT_A_TIME).try_collect().await
    }
}

/// The statement that writes a new ban, or deletes a ban that has ended.
pub(in crate::cql) fn ban_part(BanRow { ban, live }: &BanRow) -> Bound {
    let Ban { key: MemberKey { group, user }, by, since, until } = *ban;
    if !live {
        return Bound(&REMOVE, values![group.get(), user.get()]);
    }
    let by: Vec<i64> = by.into_iter().map(UserId::get).collect();
    let mut row = values![since.0, until.map_or(FOREVER, |until| until.0), by, group.get(), user.get()];
    row.extend(values![time_to_live(since, until)]);
    Bound(&PUT, row)
}

/// A ban's time to live in seconds; 0: no expiry.
fn time_to_live(since: Timestamp, until: Option<Timestamp>) -> i32 {
    let ttl = until.map(|until| until.0.saturating_sub(since.0) / 1_000 + TTL_SPARE);
    ttl.filter(|ttl| *ttl <= TTL_MAX).and_then(|ttl| i32::try_from(ttl).ok()).unwrap_or(0)
}

fn ban(group: GroupId, row: &NamedRow) -> Result<Ban, StoreError> {
    let by = row.numbers("named")?.first().map(|by| UserId::new(*by).map_err(|_| malformed("named")));
    let until = row.some_number("muted_until")?;
    Ok(Ban {
        key: MemberKey { group, user: row.user("member")? },
        by: by.transpose()?,
        since: row.time("joined")?.ok_or_else(|| malformed("joined"))?,
        until: (until != FOREVER).then_some(Timestamp(until)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_to_live_covers_the_ban() {
        let ttl = |until| time_to_live(Timestamp(1_000), until);
        assert_eq!(ttl(None), 0);
        assert_eq!(ttl(Some(Timestamp(61_999))), 60 + 3_600);
        assert_eq!(ttl(Some(Timestamp(253_402_300_799_999))), 0, "more than the maximum time to live");
    }
}
