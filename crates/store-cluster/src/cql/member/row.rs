//! Member rows. Kind 0 has all present and former members. Kind 1 has those with a role above member once
//! more, so that they are found without scanning all members.

use kith_store::{GroupId, Member, MemberKey, MemberRow, Role, Seq, StayHistory, StoreError, UserId};

use super::roster::{until, until_number};
use crate::cql::{
    client::{
        error::malformed,
        row::NamedRow,
        session::{Bound, Statement, values},
    },
    stores::Cql,
};

const ROWS: Statement = Statement::read(
    "SELECT member, live, changed, role, ordinal, remark, muted_until, joined, named FROM %k.members \
     WHERE grp = ? AND kind = 0 AND place = 0 AND member IN ?",
);
const ROWS_SERIAL: Statement = Statement::serial(
    "SELECT member, live, changed, role, ordinal, remark, muted_until, joined, named FROM %k.members \
     WHERE grp = ? AND kind = 0 AND place = 0 AND member IN ?",
);
const LIST: Statement = Statement::read(
    "SELECT member, live, changed, role, ordinal, remark, muted_until, joined, named FROM %k.members \
     WHERE grp = ? AND kind = 0 AND place = 0 AND member > ? AND live = 1 LIMIT ? ALLOW FILTERING",
);
const ALL: Statement = Statement::read(
    "SELECT member, live, changed, role, ordinal, remark, muted_until, joined, named FROM %k.members \
     WHERE grp = ? AND kind = 0 AND place = 0 AND member > ? LIMIT ?",
);
const ABOVE: Statement = Statement::read(
    "SELECT member, live, changed, role, ordinal, remark, muted_until, joined, named FROM %k.members \
     WHERE grp = ? AND kind = 1 AND place = 0 AND member > ? AND live = 1 AND role >= ? \
     LIMIT ? ALLOW FILTERING",
);
/// Former members with a mute.
const MUTED: Statement = Statement::read(
    "SELECT member, live, changed, role, ordinal, remark, muted_until, joined, named FROM %k.members \
     WHERE grp = ? AND kind = 0 AND place = 0 AND live = 0 AND muted_until > ? LIMIT ? ALLOW FILTERING",
);
const PUT: Statement = Statement::conditional(
    "INSERT INTO %k.members \
     (live, changed, role, ordinal, remark, muted_until, joined, named, grp, kind, place, member) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
);
/// The most users in one request: ScyllaDB accepts no more.
const NAMED_MAX: usize = 100;

impl Cql {
    /// Reads these users' rows at quorum. Users who were never members are left out.
    pub(in crate::cql) async fn members_of(
        &self,
        group: GroupId,
        users: &[UserId],
    ) -> Result<Vec<MemberRow>, StoreError> {
        self.read_members(&ROWS, group, users).await
    }

    /// Reads these users' rows after all conditional writes in progress.
    pub(in crate::cql) async fn confirmed_members(
        &self,
        group: GroupId,
        users: &[UserId],
    ) -> Result<Vec<MemberRow>, StoreError> {
        self.read_members(&ROWS_SERIAL, group, users).await
    }

    /// Lists up to `limit` group members with at least this role, by rising id.
    pub(in crate::cql) async fn list_members(
        &self,
        group: GroupId,
        least: Role,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<MemberRow>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let after = after.map_or(0, UserId::get);
        let rows = if least == Role::Member {
            self.client.records(&LIST, values![group.get(), after, limit]).await?
        } else {
            self.client.records(&ABOVE, values![group.get(), after, number(least), limit]).await?
        };
        rows.iter().map(|row| member_row(group, row)).collect()
    }

    /// Lists up to `limit` present and former group members, by rising id.
    pub(in crate::cql) async fn list_rows(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<MemberRow>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let rows =
            self.client.records(&ALL, values![group.get(), after.map_or(0, UserId::get), limit]).await?;
        rows.iter().map(|row| member_row(group, row)).collect()
    }

    /// Lists up to `limit` former group members who are muted. Scans all present and former members.
    pub(in crate::cql) async fn muted_former_members(
        &self,
        group: GroupId,
        limit: usize,
    ) -> Result<Vec<MemberRow>, StoreError> {
        let limit = i32::try_from(limit.max(1)).unwrap_or(i32::MAX);
        let rows = self.client.records(&MUTED, values![group.get(), until_number(None), limit]).await?;
        rows.iter().map(|row| member_row(group, row)).collect()
    }

    async fn read_members(
        &self,
        statement: &'static Statement,
        group: GroupId,
        users: &[UserId],
    ) -> Result<Vec<MemberRow>, StoreError> {
        let mut found = Vec::with_capacity(users.len());
        for named in users.chunks(NAMED_MAX) {
            let named: Vec<i64> = named.iter().map(|user| user.get()).collect();
            for row in self.client.records(statement, values![group.get(), named]).await? {
                found.push(member_row(group, &row)?);
            }
        }
        Ok(found)
    }
}

/// The statements that write a changed member.
pub(in crate::cql) fn member_parts(before: Option<&MemberRow>, after: &MemberRow) -> Vec<Bound> {
    let mut parts = vec![part(after, after.live, 0)];
    // A row with kind 1 is marked as not live instead of deleted, because tombstones make pages slow.
    if is_above(after) || before.is_some_and(is_above) {
        parts.push(part(after, is_above(after), 1));
    }
    parts
}

fn part(MemberRow { member, stays, .. }: &MemberRow, live: bool, kind: i32) -> Bound {
    let Member { key, version, role, ordinal, remark, muted_until, joined, .. } = member;
    let mut row = values![live, version.get(), number(*role), i64::from(*ordinal), remark.to_string()];
    row.extend(values![until_number(*muted_until), joined.0, numbers_of(member, stays)]);
    row.extend(values![key.group.get(), kind, key.user.get()]);
    Bound(&PUT, row)
}

fn is_above(row: &MemberRow) -> bool {
    row.live && row.member.role > Role::Member
}

fn number(role: Role) -> i32 {
    i32::from(role as u8)
}

fn member_row(group: GroupId, row: &NamedRow) -> Result<MemberRow, StoreError> {
    let (from_seq, joined_seq, stays) = ranges_of(row)?;
    let member = Member {
        key: MemberKey { group, user: row.user("member")? },
        version: row.version("changed")?,
        role: Role::of(row.some_number("role")?).ok_or_else(|| malformed("role"))?,
        ordinal: row.count("ordinal")?,
        remark: row.text("remark")?.unwrap_or_default().into(),
        muted_until: until(row.some_number("muted_until")?),
        joined: row.time("joined")?.ok_or_else(|| malformed("joined"))?,
        from_seq,
        joined_seq,
    };
    Ok(MemberRow { member, live: row.some_number("live")? != 0, stays })
}

/// A member's message numbers, as stored in `named`: `from_seq`, `joined_seq`, `left_seq`, `first_seq`, and
/// then the first and the last number in each earlier stay. Member rows had no other use for this column, so
/// no table was altered.
fn numbers_of(member: &Member, stays: &StayHistory) -> Vec<Seq> {
    let last = [member.from_seq, member.joined_seq, stays.left_seq, stays.first_seq];
    last.into_iter().chain(stays.earlier.iter().flat_map(|(first, last)| [*first, *last])).collect()
}

/// Decodes `named` into `from_seq`, `joined_seq` and the rest. All are 0 in a row from before messages
/// existed.
fn ranges_of(row: &NamedRow) -> Result<(Seq, Seq, StayHistory), StoreError> {
    let numbers = row.numbers("named")?;
    if numbers.is_empty() {
        return Ok((0, 0, StayHistory::default()));
    }
    let [from_seq, joined_seq, left_seq, first_seq, earlier @ ..] = numbers.as_slice() else {
        return Err(malformed("named"));
    };
    let (earlier, []) = earlier.as_chunks::<2>() else { return Err(malformed("named")) };
    let earlier = earlier.iter().map(|[first, last]| (*first, *last)).collect();
    Ok((*from_seq, *joined_seq, StayHistory { left_seq: *left_seq, first_seq: *first_seq, earlier }))
}
