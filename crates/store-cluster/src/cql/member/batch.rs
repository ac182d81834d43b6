//! A group's state after changes, before it is written.

use std::collections::{BTreeMap, BTreeSet};

use kith_store::{
    Ban, BanRow, Bans, GroupId, MemberRow, MembersUpdated, MembershipTransition, Roster, Seq, StoreError,
    Timestamp, UserId, Version,
};

use super::{
    ban::ban_part,
    change_ring::ring_part,
    queue::PendingChange,
    roster::{SeenRoster, roster_part},
    row::member_parts,
};
use crate::cql::{
    change_log::{ChangeLogEntry, ChangeSubject},
    client::session::Bound,
    log_end::not_read,
};

/// A group as it was read, and its state after changes that are not written yet.
#[derive(Debug)]
pub(in crate::cql) struct Draft {
    pub(in crate::cql) group: GroupId,
    /// The roster that was read.
    before: SeenRoster,
    /// The rows that were read.
    rows_before: BTreeMap<UserId, MemberRow>,
    roster: Roster,
    rows: BTreeMap<UserId, MemberRow>,
    bans: BTreeMap<UserId, Ban>,
    /// How many bans the group has.
    ban_count: u32,
    /// The new and ended bans, each with its change's version.
    ban_changes: Vec<(Version, BanRow)>,
    /// The users that each version changed.
    changes: Vec<(Version, Vec<UserId>)>,
    /// The last version that changed the roster alone.
    roster_change: Option<Version>,
    /// The statements that store answers to requests.
    answers: Vec<Bound>,
    /// The end of the group's log.
    log_end: Result<Seq, StoreError>,
}

impl Draft {
    /// A draft without changes. The roster must have been read before the rows, so that the rows are not
    /// older.
    pub(in crate::cql) fn new(
        group: GroupId,
        before: SeenRoster,
        rows: impl IntoIterator<Item = MemberRow>,
    ) -> Self {
        let rows_before: BTreeMap<_, _> = rows.into_iter().map(|row| (row.member.key.user, row)).collect();
        let (roster, rows) = (before.roster, rows_before.clone());
        Self {
            group,
            before,
            rows_before,
            roster,
            rows,
            bans: BTreeMap::new(),
            ban_count: 0,
            ban_changes: Vec::new(),
            changes: Vec::new(),
            roster_change: None,
            answers: Vec::new(),
            log_end: Err(not_read()),
        }
    }

    /// Adds the bans, which must also have been read after the roster.
    pub(in crate::cql) fn with_bans(self, Bans { named, count }: Bans) -> Self {
        let bans = named.into_iter().map(|ban| (ban.key.user, ban)).collect();
        Self { bans, ban_count: count, ..self }
    }

    /// Adds the end of the group's log, which must also have been read after the roster. If it could not be
    /// read, joins and leaves fail.
    pub(in crate::cql) fn with_log_end(self, log_end: Result<Seq, StoreError>) -> Self {
        Self { log_end, ..self }
    }

    /// Decides a change at its own time, on the state after the previous changes.
    pub(in crate::cql) fn decide(&mut self, pending: &PendingChange) -> Result<MembersUpdated, StoreError> {
        let current = self.roster.version;
        if pending.write.expected.is_some_and(|expected| expected != current) {
            return Err(StoreError::Conflict { current });
        }
        let named: BTreeSet<UserId> = pending.users().chain(self.roster.owner).collect();
        let rows = named.iter().filter_map(|user| self.rows.get(user)).cloned();
        let bans = named.iter().filter_map(|user| self.bans.get(user)).copied().collect();
        let bans = Bans { named: bans, count: self.ban_count };
        let mut transition = self.transition(rows, bans, pending.write.now);
        transition.change(&pending.change, pending.terms)?;
        let changed = self.decided(&transition)?;
        self.answers.extend(pending.answer_part(self.group, &changed)?);
        self.apply(&changed);
        Ok(changed)
    }

    /// Ends all memberships, mutes and bans that were read.
    pub(in crate::cql) fn end(&mut self, now: Timestamp) -> Result<Roster, StoreError> {
        let bans = Bans { named: self.bans.values().copied().collect(), count: self.ban_count };
        let mut transition = self.transition(self.rows.values().cloned(), bans, now);
        transition.end();
        let ended = self.decided(&transition)?;
        self.apply(&ended);
        Ok(self.roster)
    }

    /// Whether there is nothing to write.
    pub(in crate::cql) fn is_empty(&self) -> bool {
        !self.changes_group() && self.answers.is_empty()
    }

    /// Whether the group is changed. If not, at most answers are written.
    pub(in crate::cql) fn changes_group(&self) -> bool {
        self.roster != self.before.roster
    }

    /// The notes about the changed users, and about a change to the roster alone. `note`: the roster's note,
    /// without a version.
    pub(in crate::cql) fn notes(&self, note: ChangeLogEntry) -> Vec<ChangeLogEntry> {
        let of_member = |row: &MemberRow| ChangeLogEntry {
            subject: ChangeSubject::Member(row.member.key),
            version: Some(row.member.version),
            ..note
        };
        let mut notes: Vec<ChangeLogEntry> = self.changed().into_iter().map(of_member).collect();
        notes.extend(self.roster_change.map(|version| ChangeLogEntry { version: Some(version), ..note }));
        notes
    }

    /// The new roster. If the group is not changed, it keeps the previous writer.
    pub(in crate::cql) fn after(&self, writer: i64) -> SeenRoster {
        let writer = if self.changes_group() { writer } else { self.before.writer };
        SeenRoster { roster: self.roster, writer }
    }

    /// All statements in the conditional write. The roster's statement has the condition.
    pub(in crate::cql) fn parts(&self, after: SeenRoster) -> Vec<Bound> {
        let mut parts = vec![roster_part(self.group, self.before.roster.version, after)];
        for row in self.changed() {
            parts.extend(member_parts(self.rows_before.get(&row.member.key.user), row));
        }
        let last: BTreeMap<UserId, &BanRow> =
            self.ban_changes.iter().map(|(_, row)| (row.ban.key.user, row)).collect();
        parts.extend(last.into_values().map(ban_part));
        parts.extend(ring_part(self.group, &self.changes));
        parts.extend(self.answers.iter().cloned());
        parts
    }

    /// The members who joined or left.
    pub(in crate::cql) fn joined_or_left(&self) -> Vec<MemberRow> {
        let was_in = |row: &MemberRow| self.rows_before.get(&row.member.key.user).is_some_and(|was| was.live);
        self.changed().into_iter().filter(|row| row.live != was_in(row)).cloned().collect()
    }

    /// The new and ended bans, each with its version.
    pub(in crate::cql) fn ban_changes(&self) -> &[(Version, BanRow)] {
        &self.ban_changes
    }

    /// The snapshot from which one change is decided.
    fn transition(
        &self,
        rows: impl IntoIterator<Item = MemberRow>,
        bans: Bans,
        now: Timestamp,
    ) -> MembershipTransition {
        let log_end = self.log_end.as_ref().ok().copied();
        MembershipTransition::new(self.group, self.roster, rows, now).with_bans(bans).with_log_end(log_end)
    }

    /// The effect that a change has. Fails if the change needs the end of the log and it was not read.
    fn decided(&self, transition: &MembershipTransition) -> Result<MembersUpdated, StoreError> {
        if transition.lacks_log_end() {
            return Err(self.log_end.clone().err().unwrap_or_else(not_read));
        }
        Ok(transition.outcome())
    }

    /// Applies a change's effect to the draft.
    fn apply(&mut self, changed: &MembersUpdated) {
        let MembersUpdated { roster, rows, bans } = changed;
        self.apply_bans(roster.version, bans);
        if roster.version > self.roster.version {
            if rows.is_empty() {
                self.roster_change = Some(roster.version);
            } else {
                self.changes.push((roster.version, rows.iter().map(|row| row.member.key.user).collect()));
            }
        }
        self.roster = *roster;
        self.rows.extend(rows.iter().map(|row| (row.member.key.user, row.clone())));
    }

    fn apply_bans(&mut self, version: Version, changed: &[BanRow]) {
        for row in changed {
            let user = row.ban.key.user;
            let before = if row.live { self.bans.insert(user, row.ban) } else { self.bans.remove(&user) };
            match (before.is_some(), row.live) {
                (false, true) => self.ban_count += 1,
                (true, false) => self.ban_count = self.ban_count.saturating_sub(1),
                (false, false) | (true, true) => {}
            }
            self.ban_changes.push((version, *row));
        }
    }

    /// The changed members, in their final state.
    fn changed(&self) -> Vec<&MemberRow> {
        let users: BTreeSet<UserId> = self.changes.iter().flat_map(|(_, users)| users).copied().collect();
        users.iter().filter_map(|user| self.rows.get(user)).collect()
    }
}
