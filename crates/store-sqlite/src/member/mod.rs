//! Group members. A change is decided and written in one transaction.

pub(crate) mod ban;

use std::{collections::HashMap, sync::LazyLock};

use async_trait::async_trait;
use kith_store::{
    Applied, BATCH_MAX, Ban, Bans, ChangeContext, ConversationId, FormerMember, GroupId, MEMBER_CHANGES_KEPT,
    MEMBERS_AT_ONCE, Member, MemberChange, MemberChangeEvent, MemberKey, MemberRow, MemberStore,
    MembersUpdated, MembershipTransition, Role, Roster, Seq, StoreError, Stored, Timestamp, UserId, Write,
    at_most,
};
use rusqlite::{Connection, Row, params};

use crate::{
    Sqlite,
    batch::BatchQuery,
    error::{Failure, internal},
    message,
    row::{earlier_bytes, group_id, member_of, roster_of, size, stored_member, user_id, version},
    state::check_expected,
    statement::{all, run},
};

macro_rules! select {
    () => {
        "SELECT group_id, user_id, version, live, role, ordinal, remark, muted_ms, joined_ms, from_seq, joined_seq, \
         left_seq, first_seq, earlier FROM members"
    };
}

/// Uses the primary key.
pub(crate) static BY_KEYS: LazyLock<BatchQuery> =
    LazyLock::new(|| BatchQuery::by_pair(select!(), "group_id, user_id"));
/// Index `members_living`, then the primary key.
pub(crate) const LIST: &str = concat!(
    select!(),
    " INDEXED BY members_living WHERE live = 1 AND group_id = ?1 AND user_id > ?2 AND role >= ?3 ORDER BY user_id LIMIT ?4"
);
/// Uses the primary key.
pub(crate) const ALL: &str =
    concat!(select!(), " WHERE group_id = ?1 AND user_id > ?2 ORDER BY user_id LIMIT ?3");
/// Index `members_above`, then the primary key.
pub(crate) const ABOVE: &str = concat!(
    select!(),
    " INDEXED BY members_above WHERE live = 1 AND role > 1 AND group_id = ?1 AND user_id > ?2 AND role >= ?3
    ORDER BY user_id LIMIT ?4"
);
/// Index `members_groups` alone.
pub(crate) const GROUPS: &str = "SELECT group_id FROM members WHERE live = 1 AND user_id = ?1 AND group_id > ?2 ORDER BY group_id LIMIT ?3";
/// Index `members_changed` alone.
pub(crate) const CHANGES: &str = "SELECT version, user_id FROM members
    WHERE group_id = ?1 AND (version, user_id) > (?2, ?3) ORDER BY version, user_id LIMIT ?4";
/// Index `members_muted`, then the primary key.
pub(crate) const MUTED: &str = concat!(
    select!(),
    " INDEXED BY members_muted WHERE live = 0 AND muted_ms IS NOT NULL AND group_id = ?1 LIMIT ?2"
);
/// Uses the primary key.
pub(crate) static ROSTERS: LazyLock<BatchQuery> =
    LazyLock::new(|| BatchQuery::new("SELECT id, version, count, ordinals, owner, muted_ms FROM rosters"));
/// On conflict, it replaces the member's previous state.
const PUT: &str = "INSERT OR REPLACE INTO members
        (group_id, user_id, version, live, role, ordinal, remark, muted_ms, joined_ms, from_seq, joined_seq,
         left_seq, first_seq, earlier)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
/// On conflict, it replaces the previous roster.
const PUT_ROSTER: &str = "INSERT OR REPLACE INTO rosters (id, version, count, ordinals, owner, muted_ms)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

#[async_trait]
impl MemberStore for Sqlite {
    async fn members(&self, keys: &[MemberKey]) -> Result<Vec<(MemberKey, Stored<Member>)>, StoreError> {
        self.readers.by_keys(&BY_KEYS, keys, stored_member).await
    }

    async fn former(&self, keys: &[MemberKey]) -> Result<Vec<Option<FormerMember>>, StoreError> {
        at_most(keys.len(), BATCH_MAX)?;
        let keys = keys.to_vec();
        self.readers.read(move |connection| Ok(FormerMember::of(&keys, &rows_of(connection, &keys)?))).await
    }

    async fn stored_members(&self, keys: &[MemberKey]) -> Result<Vec<Option<MemberRow>>, StoreError> {
        at_most(keys.len(), BATCH_MAX)?;
        let keys = keys.to_vec();
        let read = move |connection: &Connection| {
            let found: HashMap<MemberKey, MemberRow> =
                rows_of(connection, &keys)?.into_iter().map(|row| (row.member.key, row)).collect();
            Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
        };
        self.readers.read(read).await
    }

    async fn rosters(&self, groups: &[GroupId]) -> Result<Vec<Roster>, StoreError> {
        at_most(groups.len(), BATCH_MAX)?;
        let groups = groups.to_vec();
        self.readers.read(move |connection| rosters(connection, &groups)).await
    }

    async fn change_members(
        &self,
        group: GroupId,
        change: MemberChange,
        terms: ChangeContext,
        write: Write,
    ) -> Result<Applied<MembersUpdated>, StoreError> {
        at_most(change.users().len(), MEMBERS_AT_ONCE)?;
        let decide =
            move |connection: &Connection, write: &Write| decide(connection, group, &change, terms, write);
        self.writer.once(write, decide).await
    }

    async fn member_list(
        &self,
        group: GroupId,
        least: Role,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<Member>, StoreError> {
        let sql = if least > Role::Member { ABOVE } else { LIST };
        let values = (group.get(), after.map_or(0, UserId::get), least as u8, size(limit));
        self.readers.all(sql, values, |row| Ok(member_of(row)?.member)).await
    }

    async fn group_rows(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<MemberRow>, StoreError> {
        let after = after.map_or(0, UserId::get);
        self.readers.all(ALL, [group.get(), after, size(limit)], member_of).await
    }

    async fn memberships(
        &self,
        user: UserId,
        after: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<GroupId>, StoreError> {
        let after = after.map_or(0, GroupId::get);
        let group = |row: &Row<'_>| group_id(row, 0, "members.group_id");
        self.readers.all(GROUPS, [user.get(), after, size(limit)], group).await
    }

    async fn member_changes(
        &self,
        group: GroupId,
        after: MemberChangeEvent,
        limit: usize,
    ) -> Result<Option<Vec<MemberChangeEvent>>, StoreError> {
        self.readers.read(move |connection| changes(connection, group, after, limit)).await
    }

    async fn ban_list(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Ban>, StoreError> {
        self.readers.read(move |connection| ban::list(connection, group, after, limit, now)).await
    }

    async fn ban(&self, key: MemberKey, now: Timestamp) -> Result<Option<Ban>, StoreError> {
        self.readers.read(move |connection| ban::find(connection, key, now)).await
    }

    async fn banned_from(
        &self,
        user: UserId,
        after: Option<GroupId>,
        limit: usize,
    ) -> Result<Vec<GroupId>, StoreError> {
        let after = after.map_or(0, GroupId::get);
        let group = |row: &Row<'_>| group_id(row, 0, "bans.group_id");
        self.readers.all(ban::GROUPS, [user.get(), after, size(limit)], group).await
    }

    async fn end_members(&self, group: GroupId, limit: usize, now: Timestamp) -> Result<u32, StoreError> {
        self.writer.write(move |connection| end(connection, group, limit, now)).await
    }
}

fn decide(
    connection: &Connection,
    group: GroupId,
    change: &MemberChange,
    terms: ChangeContext,
    write: &Write,
) -> Result<MembersUpdated, Failure> {
    let before = roster(connection, group)?;
    check_expected(write, before.version)?;
    let mut users = change.users();
    users.extend(terms.by.into_iter().chain(before.owner));
    users.sort_unstable();
    users.dedup();
    let keys: Vec<MemberKey> = users.into_iter().map(|user| MemberKey { group, user }).collect();
    let rows = rows_of(connection, &keys)?;
    let bans = bans(connection, group, change, write.now)?;
    let log_end = if change.reads_end() { Some(log_end(connection, group)?) } else { None };
    let mut transition =
        MembershipTransition::new(group, before, rows, write.now).with_bans(bans).with_log_end(log_end);
    transition.change(change, terms).map_err(StoreError::from)?;
    let changed = decided(&transition)?;
    if changed.roster != before {
        put_all(connection, group, &changed)?;
    }
    Ok(changed)
}

/// The result that a transition may write.
fn decided(transition: &MembershipTransition) -> Result<MembersUpdated, Failure> {
    if transition.lacks_log_end() {
        return Err(internal("a change that needs the end of the log was decided without it").into());
    }
    Ok(transition.outcome())
}

/// Where a group's log ends. Read in the change's transaction, so that no message comes between.
fn log_end(connection: &Connection, group: GroupId) -> Result<Seq, Failure> {
    Ok(message::end(connection, &ConversationId::Group(group).to_string())?.seq)
}

/// The bans that decide a change.
fn bans(
    connection: &Connection,
    group: GroupId,
    change: &MemberChange,
    now: Timestamp,
) -> Result<Bans, Failure> {
    if !change.reads_bans() {
        return Ok(Bans::default());
    }
    let bans = ban::of_users(connection, group, &change.users(), now)?;
    if change.counts_bans() { ban::with_count(connection, group, bans, now) } else { Ok(bans) }
}

fn put_all(
    connection: &Connection,
    group: GroupId,
    MembersUpdated { roster, rows, bans }: &MembersUpdated,
) -> Result<(), Failure> {
    ban::put(connection, bans)?;
    let owner = roster.owner.map(UserId::get);
    let muted = roster.muted_until.map(|at| at.0);
    let row = params![group.get(), roster.version.get(), roster.count, roster.ordinals, owner, muted];
    run(connection, PUT_ROSTER, row)?;
    let mut put = connection.prepare_cached(PUT)?;
    for MemberRow { member, live, stays } in rows {
        put.execute(params![
            group.get(),
            member.key.user.get(),
            member.version.get(),
            live,
            member.role as u8,
            member.ordinal,
            member.remark.as_str(),
            member.muted_until.map(|at| at.0),
            member.joined.0,
            member.from_seq,
            member.joined_seq,
            stays.left_seq,
            stays.first_seq,
            earlier_bytes(stays)
        ])?;
    }
    Ok(())
}

fn roster(connection: &Connection, group: GroupId) -> Result<Roster, Failure> {
    Ok(rosters(connection, &[group])?.pop().unwrap_or_default())
}

fn rosters(connection: &Connection, groups: &[GroupId]) -> Result<Vec<Roster>, Failure> {
    let mut found = vec![Roster::default(); groups.len()];
    ROSTERS.run(connection, groups, |row| {
        let (group, roster) = roster_of(row)?;
        for (at, _) in groups.iter().enumerate().filter(|(_, asked)| **asked == group) {
            found[at] = roster;
        }
        Ok(())
    })?;
    Ok(found)
}

fn changes(
    connection: &Connection,
    group: GroupId,
    after: MemberChangeEvent,
    limit: usize,
) -> Result<Option<Vec<MemberChangeEvent>>, Failure> {
    // The roster is read first: a change in between is returned, too, which does no harm.
    let behind = roster(connection, group)?.version.get() - after.version.get();
    if !(0..=MEMBER_CHANGES_KEPT).contains(&behind) {
        return Ok(None);
    }
    let values = [group.get(), after.version.get(), after.user.get(), size(limit)];
    let event = |row: &Row<'_>| {
        Ok(MemberChangeEvent { version: version(row, 0)?, user: user_id(row, 1, "members.user_id")? })
    };
    all(connection, CHANGES, values, event).map(Some)
}

fn end(connection: &Connection, group: GroupId, limit: usize, now: Timestamp) -> Result<u32, Failure> {
    let live = params![group.get(), 0, Role::Member as u8, size(limit)];
    let mut rows = all(connection, LIST, live, member_of)?;
    // Mutes and bans end once no member is left.
    let only_members = rows.len() >= limit;
    let (mut named, mut is_more) = (Vec::new(), only_members);
    if !only_members {
        let muted = all(connection, MUTED, [group.get(), size(limit)], member_of)?;
        named = ban::list(connection, group, None, limit, Timestamp(i64::MIN))?;
        is_more = muted.len() >= limit || named.len() >= limit;
        rows.extend(muted);
    }
    let before = roster(connection, group)?;
    let log_end = Some(log_end(connection, group)?);
    let mut transition = MembershipTransition::new(group, before, rows, now)
        .with_bans(Bans { named, count: 0 })
        .with_log_end(log_end);
    transition.end();
    let ended = decided(&transition)?;
    if ended.roster != before {
        put_all(connection, group, &ended)?;
    }
    Ok(ended.roster.count.max(u32::from(is_more)))
}

/// Reads these members' rows; leaves out users who never were members.
fn rows_of(connection: &Connection, keys: &[MemberKey]) -> Result<Vec<MemberRow>, Failure> {
    let mut rows = Vec::with_capacity(keys.len());
    BY_KEYS.run(connection, keys, |row| {
        rows.push(member_of(row)?);
        Ok(())
    })?;
    Ok(rows)
}
