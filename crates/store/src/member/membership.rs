//! How changes to members are decided. All backends share these rules.

use std::collections::{BTreeMap, BTreeSet};

use super::{ban::TransitionBans, stays::TransitionLogEnd};
use crate::{
    Bans, ChangeContext, GroupId, Member, MemberChange, MemberRefusal, MemberRow, MembersUpdated, Role,
    Roster, Timestamp, UserId, Version,
};

/// A snapshot of a group and the members whom changes name. Every backend decides changes to members by it. A
/// caller that writes the result must do so on condition that the roster still has the version that was read.
#[derive(Clone, Debug)]
pub struct MembershipTransition {
    pub(crate) group: GroupId,
    pub(crate) roster: Roster,
    pub(crate) rows: BTreeMap<UserId, MemberRow>,
    changed: BTreeSet<UserId>,
    pub(crate) bans: TransitionBans,
    pub(crate) now: Timestamp,
    pub(crate) log_end: TransitionLogEnd,
}

impl MembershipTransition {
    /// Created from the roster and the rows for the acting users and those named in changes, made at `now`.
    #[must_use]
    pub fn new(
        group: GroupId,
        roster: Roster,
        rows: impl IntoIterator<Item = MemberRow>,
        now: Timestamp,
    ) -> Self {
        let rows = rows.into_iter().map(|row| (row.member.key.user, row)).collect();
        let (changed, bans, log_end) =
            (BTreeSet::new(), TransitionBans::default(), TransitionLogEnd::default());
        Self { group, roster, rows, changed, bans, now, log_end }
    }

    /// Adds the bans on users in changes that [read bans](MemberChange::reads_bans).
    #[must_use]
    pub fn with_bans(self, bans: Bans) -> Self {
        Self { bans: bans.into(), ..self }
    }

    /// The roster after the changes.
    #[must_use]
    pub const fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The rows that were changed, by rising id.
    pub fn changed(&self) -> impl Iterator<Item = &MemberRow> {
        self.changed.iter().filter_map(|user| self.rows.get(user))
    }

    /// Returns the total result.
    #[must_use]
    pub fn outcome(&self) -> MembersUpdated {
        let rows = self.changed().cloned().collect();
        MembersUpdated { roster: self.roster, rows, bans: self.bans.changed().copied().collect() }
    }

    /// A user's row after the changes; `None`: it was never in the group.
    #[must_use]
    pub fn row(&self, user: UserId) -> Option<&MemberRow> {
        self.rows.get(&user)
    }

    /// Decides a change, and applies it completely or not at all. Returns the changed users, by rising id.
    ///
    /// # Errors
    /// The reason for which it is refused.
    pub fn change(
        &mut self,
        change: &MemberChange,
        terms: ChangeContext,
    ) -> Result<Vec<UserId>, MemberRefusal> {
        match change {
            MemberChange::AddFounder(user) => self.add_founder(*user, terms),
            MemberChange::Join(user) => self.add(&[*user], terms),
            MemberChange::Add(users) => {
                self.require_role(Role::Admin, terms)?;
                self.add(users, terms)
            }
            MemberChange::Remove(users) => {
                self.removable(users, terms).map(|leaving| self.end_memberships(leaving))
            }
            MemberChange::Ban(users, until) => self.ban(users, *until, terms),
            MemberChange::Unban(users) => self.unban(users, terms),
            MemberChange::Import(rows) => self.import(rows, terms),
            MemberChange::ImportBans(bans) => self.import_bans(bans, terms),
            MemberChange::Leave(user) => self.leave(*user),
            MemberChange::AccountDeleted(user) => self.end_account(*user, terms),
            MemberChange::SetRole(user, role) => {
                self.require_role(Role::Owner, terms)?;
                self.set_role(*user, *role)
            }
            MemberChange::Transfer(user) => {
                self.require_role(Role::Owner, terms)?;
                self.transfer(*user)
            }
            MemberChange::Mute(user, until) => {
                self.require_role_above(*user, terms)?;
                self.set(*user, |member| std::mem::replace(&mut member.muted_until, *until) != *until)
            }
            MemberChange::MuteAll(until) => self.mute_all(*until, terms),
            MemberChange::Remark(user, remark) => {
                if terms.by != Some(*user) {
                    self.require_role(Role::Admin, terms)?;
                }
                self.set(*user, |member| std::mem::replace(&mut member.remark, remark.clone()) != *remark)
            }
        }
    }

    /// Ends a dismissed group's memberships that were read, whatever their roles, the mutes of former
    /// members, and the bans that were read. When the last membership ends, ownership and the group's mute
    /// end, too.
    pub fn end(&mut self) {
        let is_left = |row: &&MemberRow| row.live || row.member.muted_until.is_some();
        let ending: Vec<UserId> = self.rows.values().filter(is_left).map(|row| row.member.key.user).collect();
        let live = ending.iter().filter(|user| self.live(**user).is_some()).count();
        let version = self.begin_change(&ending);
        self.roster.count = self.roster.count.saturating_sub(u32::try_from(live).unwrap_or(u32::MAX));
        for user in &ending {
            if let Some(version) = version {
                self.end_stay(*user, version);
            }
            if let Some(row) = self.rows.get_mut(user) {
                row.member.muted_until = None;
            }
        }
        let had_bans = self.end_bans();
        let was_muted = self.roster.count == 0 && self.roster.muted_until.take().is_some();
        if version.is_none() && (had_bans || was_muted) {
            self.roster.version = self.roster.version.next();
        }
        if self.roster.count == 0 {
            self.roster.owner = None;
        }
    }

    fn add_founder(&mut self, user: UserId, terms: ChangeContext) -> Result<Vec<UserId>, MemberRefusal> {
        match self.roster.owner {
            Some(owner) if owner == user => return Ok(Vec::new()),
            Some(_) => return Err(MemberRefusal::HasOwner),
            None => {}
        }
        let changed = self.add_members(&[user], terms)?;
        self.roster.owner = Some(user);
        self.unban_owner(user);
        if changed.is_empty() {
            return self.set(user, |member| std::mem::replace(&mut member.role, Role::Owner) != Role::Owner);
        }
        if let Some(row) = self.rows.get_mut(&user) {
            row.member.role = Role::Owner;
        }
        Ok(changed)
    }

    fn add(&mut self, users: &[UserId], terms: ChangeContext) -> Result<Vec<UserId>, MemberRefusal> {
        if users.iter().any(|user| self.bans.of(*user, self.now).is_some()) {
            return Err(MemberRefusal::Banned);
        }
        self.add_members(users, terms)
    }

    fn add_members(&mut self, users: &[UserId], terms: ChangeContext) -> Result<Vec<UserId>, MemberRefusal> {
        let mut joining: Vec<UserId> =
            users.iter().filter(|user| self.live(**user).is_none()).copied().collect();
        joining.sort_unstable();
        joining.dedup();
        let joining_count = u32::try_from(joining.len()).unwrap_or(u32::MAX);
        if self.roster.count.saturating_add(joining_count) > terms.members_max && !joining.is_empty() {
            return Err(MemberRefusal::Full);
        }
        let Some(version) = self.begin_change(&joining) else { return Ok(joining) };
        self.roster.count += joining_count;
        for user in &joining {
            self.begin_stay(*user, version, terms.history);
        }
        Ok(joining)
    }

    /// Returns the members among these users. Fails unless the acting user may remove each of them.
    pub(crate) fn removable(
        &self,
        users: &[UserId],
        terms: ChangeContext,
    ) -> Result<Vec<UserId>, MemberRefusal> {
        self.require_role(Role::Admin, terms)?;
        let mut leaving: Vec<UserId> =
            users.iter().filter(|user| self.live(**user).is_some()).copied().collect();
        leaving.sort_unstable();
        leaving.dedup();
        for user in &leaving {
            self.require_role_above(*user, terms)?;
        }
        Ok(leaving)
    }

    fn leave(&mut self, user: UserId) -> Result<Vec<UserId>, MemberRefusal> {
        if self.live(user).ok_or(MemberRefusal::NotAMember)?.role == Role::Owner {
            return Err(MemberRefusal::OwnerStays);
        }
        Ok(self.end_memberships(vec![user]))
    }

    fn end_account(&mut self, user: UserId, terms: ChangeContext) -> Result<Vec<UserId>, MemberRefusal> {
        if terms.by.is_some() {
            return Err(MemberRefusal::RoleTooLow);
        }
        if self.live(user).is_none() {
            return Ok(Vec::new());
        }
        if self.roster.owner == Some(user) {
            self.roster.owner = None;
        }
        Ok(self.end_memberships(vec![user]))
    }

    pub(crate) fn end_memberships(&mut self, leaving: Vec<UserId>) -> Vec<UserId> {
        let Some(version) = self.begin_change(&leaving) else { return leaving };
        // The rows may be newer than the roster; the result is not written then.
        let count = u32::try_from(leaving.len()).unwrap_or(u32::MAX);
        self.roster.count = self.roster.count.saturating_sub(count);
        for user in &leaving {
            self.end_stay(*user, version);
        }
        leaving
    }

    fn set_role(&mut self, user: UserId, role: Role) -> Result<Vec<UserId>, MemberRefusal> {
        let before = self.live(user).ok_or(MemberRefusal::NotAMember)?.role;
        if role == Role::Owner || before == Role::Owner {
            return Err(MemberRefusal::OwnerStays);
        }
        self.set(user, |member| std::mem::replace(&mut member.role, role) != role)
    }

    fn transfer(&mut self, to: UserId) -> Result<Vec<UserId>, MemberRefusal> {
        if self.live(to).ok_or(MemberRefusal::NotAMember)?.role == Role::Owner {
            return Ok(Vec::new());
        }
        let mut changed: Vec<UserId> = self.roster.owner.into_iter().chain([to]).collect();
        changed.sort_unstable();
        let version = self.begin_change(&changed);
        for user in &changed {
            if let (Some(row), Some(version)) = (self.rows.get_mut(user), version) {
                row.member.role = if *user == to { Role::Owner } else { Role::Admin };
                row.member.version = version;
            }
        }
        self.roster.owner = Some(to);
        Ok(changed)
    }

    fn mute_all(
        &mut self,
        until: Option<Timestamp>,
        terms: ChangeContext,
    ) -> Result<Vec<UserId>, MemberRefusal> {
        self.require_role(Role::Admin, terms)?;
        if self.roster.muted_until != until {
            self.roster.muted_until = until;
            self.roster.version = self.roster.version.next();
        }
        Ok(Vec::new())
    }

    /// Changes a member by a function that returns whether it changed anything.
    fn set(
        &mut self,
        user: UserId,
        change: impl FnOnce(&mut Member) -> bool,
    ) -> Result<Vec<UserId>, MemberRefusal> {
        let row = self.rows.get_mut(&user).filter(|row| row.live).ok_or(MemberRefusal::NotAMember)?;
        if !change(&mut row.member) {
            return Ok(Vec::new());
        }
        let version = self.begin_change(&[user]);
        if let (Some(row), Some(version)) = (self.rows.get_mut(&user), version) {
            row.member.version = version;
        }
        Ok(vec![user])
    }

    /// The version for a change to these users; `None`: it changes none.
    pub(crate) fn begin_change(&mut self, users: &[UserId]) -> Option<Version> {
        if users.is_empty() {
            return None;
        }
        self.roster.version = self.roster.version.next();
        self.changed.extend(users);
        Some(self.roster.version)
    }

    fn live(&self, user: UserId) -> Option<&Member> {
        self.rows.get(&user).filter(|row| row.live).map(|row| &row.member)
    }

    /// Fails unless the acting user has at least this role.
    pub(crate) fn require_role(&self, role: Role, terms: ChangeContext) -> Result<(), MemberRefusal> {
        let Some(by) = terms.by else { return Ok(()) };
        match self.live(by) {
            Some(member) if member.role >= role => Ok(()),
            _ => Err(MemberRefusal::RoleTooLow),
        }
    }

    /// Fails unless the acting user's role is above this member's.
    fn require_role_above(&self, user: UserId, terms: ChangeContext) -> Result<(), MemberRefusal> {
        let role = self.live(user).ok_or(MemberRefusal::NotAMember)?.role;
        let by = terms.by.map(|by| self.live(by).map(|member| member.role));
        match by {
            // A service, or the owner for itself.
            None | Some(Some(Role::Owner)) if role == Role::Owner => Err(MemberRefusal::OwnerStays),
            None => Ok(()),
            Some(Some(by)) if by > role => Ok(()),
            Some(_) => Err(MemberRefusal::RoleTooLow),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: u32 = 100;

    fn user(id: i64) -> UserId {
        UserId::new(id).unwrap()
    }

    fn by(user: i64) -> ChangeContext {
        ChangeContext { by: UserId::new(user).ok(), ..service() }
    }
    fn service() -> ChangeContext {
        ChangeContext { by: None, members_max: LARGE, bans_max: LARGE, history: false }
    }

    /// User 1 owns it, 2 is an admin, 3 to 5 are members.
    fn transition() -> MembershipTransition {
        let group = GroupId::new(9).unwrap();
        let mut transition = MembershipTransition::new(group, Roster::default(), [], Timestamp(7));
        transition.change(&MemberChange::AddFounder(user(1)), service()).unwrap();
        transition.change(&MemberChange::Add((2..=5).map(user).collect()), by(1)).unwrap();
        transition.change(&MemberChange::SetRole(user(2), Role::Admin), by(1)).unwrap();
        transition
    }

    fn roles(transition: &MembershipTransition) -> Vec<(i64, Role)> {
        let live = transition.rows.values().filter(|row| row.live);
        live.map(|row| (row.member.key.user.get(), row.member.role)).collect()
    }

    #[test]
    fn new_member_gets_the_next_ordinal_for_good() {
        let mut transition = transition();
        let ordinal =
            |transition: &MembershipTransition, id| transition.row(user(id)).unwrap().member.ordinal;
        let before = ordinal(&transition, 4);
        transition.change(&MemberChange::Leave(user(4)), by(4)).unwrap();
        transition.change(&MemberChange::Join(user(6)), by(6)).unwrap();
        transition.change(&MemberChange::Join(user(4)), by(4)).unwrap();
        assert_eq!(
            (ordinal(&transition, 4), ordinal(&transition, 6), transition.roster().ordinals),
            (before, 5, 6)
        );
        assert_eq!(transition.roster().count, 6);
    }

    #[test]
    fn the_limit_is_met_and_not_passed() {
        let mut transition = transition();
        let terms = ChangeContext { members_max: 7, ..service() };
        let three = MemberChange::Add(vec![user(6), user(7), user(8)]);
        assert_eq!(transition.change(&three, terms), Err(MemberRefusal::Full));
        assert_eq!(
            transition.change(&MemberChange::Add(vec![user(6), user(7), user(3)]), terms).unwrap().len(),
            2
        );
        assert_eq!(transition.change(&MemberChange::Join(user(8)), terms), Err(MemberRefusal::Full));
        assert_eq!(transition.change(&MemberChange::Join(user(7)), terms), Ok(Vec::new()), "it is in");
    }

    #[test]
    fn removal_requires_a_higher_role() {
        let mut transition = transition();
        for (by_user, out) in [(2, 1), (2, 2), (3, 4), (3, 2), (99, 3)] {
            assert!(
                transition.change(&MemberChange::Remove(vec![user(out)]), by(by_user)).is_err(),
                "{by_user} {out}"
            );
        }
        assert_eq!(
            transition.change(&MemberChange::Remove(vec![user(3), user(77)]), by(2)).unwrap(),
            [user(3)]
        );
        assert_eq!(transition.change(&MemberChange::Remove(vec![user(2)]), by(1)).unwrap(), [user(2)]);
    }

    #[test]
    fn a_group_has_one_owner_who_cannot_go() {
        let mut transition = transition();
        assert_eq!(transition.change(&MemberChange::Leave(user(1)), by(1)), Err(MemberRefusal::OwnerStays));
        assert_eq!(
            transition.change(&MemberChange::Remove(vec![user(1)]), service()),
            Err(MemberRefusal::OwnerStays)
        );
        assert_eq!(
            transition.change(&MemberChange::SetRole(user(1), Role::Member), by(1)),
            Err(MemberRefusal::OwnerStays)
        );
        assert_eq!(
            transition.change(&MemberChange::SetRole(user(3), Role::Owner), by(1)),
            Err(MemberRefusal::OwnerStays)
        );
        for change in [MemberChange::Remove(vec![user(1)]), MemberChange::Mute(user(1), None)] {
            assert_eq!(transition.change(&change, by(1)), Err(MemberRefusal::OwnerStays), "{change:?}");
            assert_eq!(transition.change(&change, by(2)), Err(MemberRefusal::RoleTooLow), "{change:?}");
        }
        assert_eq!(
            transition.change(&MemberChange::AddFounder(user(3)), service()),
            Err(MemberRefusal::HasOwner)
        );
        assert_eq!(
            transition.change(&MemberChange::Transfer(user(3)), by(2)),
            Err(MemberRefusal::RoleTooLow)
        );
        assert_eq!(transition.change(&MemberChange::Transfer(user(3)), by(1)).unwrap(), [user(1), user(3)]);
        let owners = roles(&transition).into_iter().filter(|(_, role)| *role == Role::Owner);
        assert_eq!(owners.collect::<Vec<_>>(), [(3, Role::Owner)]);
        assert_eq!(transition.roster().owner, Some(user(3)));
        assert!(transition.change(&MemberChange::Leave(user(1)), by(1)).is_ok(), "an admin by then");
    }

    #[test]
    fn member_may_own_a_group_without_owner() {
        let mut transition =
            MembershipTransition::new(GroupId::new(9).unwrap(), Roster::default(), [], Timestamp(7));
        transition.change(&MemberChange::Add(vec![user(1), user(2)]), service()).unwrap();
        assert_eq!(transition.roster().owner, None);
        let before = transition.roster().version;
        assert_eq!(transition.change(&MemberChange::AddFounder(user(2)), service()), Ok(vec![user(2)]));
        assert_eq!(roles(&transition), [(1, Role::Member), (2, Role::Owner)]);
        assert_eq!((transition.roster().version, transition.roster().count), (before.next(), 2));
    }

    #[test]
    fn account_deletion_removes_any_role() {
        let mut transition = transition();
        assert_eq!(
            transition.change(&MemberChange::AccountDeleted(user(1)), by(1)),
            Err(MemberRefusal::RoleTooLow)
        );
        assert_eq!(transition.change(&MemberChange::AccountDeleted(user(1)), service()), Ok(vec![user(1)]));
        assert_eq!((transition.roster().owner, transition.roster().count), (None, 4));
        assert_eq!(transition.change(&MemberChange::AccountDeleted(user(1)), service()), Ok(Vec::new()));
        assert_eq!(transition.change(&MemberChange::AccountDeleted(user(2)), service()), Ok(vec![user(2)]));
    }

    #[test]
    fn a_refused_change_changes_nothing() {
        let mut transition = transition();
        let before = (*transition.roster(), roles(&transition));
        let some = MemberChange::Remove(vec![user(3), user(1)]);
        assert!(transition.change(&some, service()).is_err());
        assert_eq!((*transition.roster(), roles(&transition)), before);
    }

    #[test]
    fn what_changes_nothing_raises_no_version() {
        let mut transition = transition();
        let version = transition.roster().version;
        for (change, terms) in [
            (MemberChange::AddFounder(user(1)), service()),
            (MemberChange::Join(user(3)), by(3)),
            (MemberChange::SetRole(user(2), Role::Admin), by(1)),
            (MemberChange::Mute(user(3), None), by(2)),
            (MemberChange::MuteAll(None), by(2)),
            (MemberChange::Remark(user(3), crate::Text::default()), by(3)),
            (MemberChange::Remove(vec![user(77)]), by(2)),
        ] {
            assert_eq!(transition.change(&change, terms), Ok(Vec::new()), "{change:?}");
        }
        assert_eq!(transition.roster().version, version);
    }

    #[test]
    fn change_sets_the_next_version_on_its_members() {
        let mut transition = transition();
        let before = transition.roster().version;
        transition.change(&MemberChange::Remove(vec![user(3), user(4)]), by(1)).unwrap();
        assert_eq!(transition.roster().version, before.next());
        let of = |id| transition.row(user(id)).unwrap().member.version;
        assert_eq!([of(3), of(4)], [before.next(); 2]);
        assert!(of(5) < before.next());
    }
}
