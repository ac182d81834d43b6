//! Users banned from groups: the records, and how changes to them are decided.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{ChangeContext, MemberKey, MemberRefusal, MembershipTransition, Role, Timestamp, UserId};

/// A user who may not become a member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ban {
    /// The banned user and the group.
    pub key: MemberKey,
    /// The user who made the ban; `None`: a service.
    pub by: Option<UserId>,
    /// When the ban was made.
    pub since: Timestamp,
    /// When it ends; `None`: with an unban only.
    pub until: Option<Timestamp>,
}

impl Ban {
    /// Whether the ban is in force at this time.
    #[must_use]
    pub fn holds(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

/// A ban that a change made or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanRow {
    /// The user's ban.
    pub ban: Ban,
    /// Whether it was made; otherwise it was ended.
    pub live: bool,
}

/// The bans that decide changes to a group's members.
#[derive(Clone, Debug, Default)]
pub struct Bans {
    /// Bans against the users whom the changes name.
    pub named: Vec<Ban>,
    /// The number of bans in the group. Only read for [`MemberChange::Ban`](crate::MemberChange::Ban).
    pub count: u32,
}

/// The bans in a [`MembershipTransition`], with the changed bans marked.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransitionBans {
    rows: BTreeMap<UserId, BanRow>,
    changed: BTreeSet<UserId>,
    count: u32,
}

impl TransitionBans {
    /// The bans that were made or ended, by rising user id.
    pub(crate) fn changed(&self) -> impl Iterator<Item = &BanRow> {
        self.changed.iter().filter_map(|user| self.rows.get(user))
    }

    /// This user's ban that is in force at this time.
    pub(crate) fn of(&self, user: UserId, now: Timestamp) -> Option<&Ban> {
        self.rows.get(&user).filter(|row| row.live && row.ban.holds(now)).map(|row| &row.ban)
    }

    /// The users whose bans are read and were not ended.
    fn users(&self) -> Vec<UserId> {
        self.rows.values().filter(|row| row.live).map(|row| row.ban.key.user).collect()
    }

    fn put(&mut self, ban: Ban) {
        self.rows.insert(ban.key.user, BanRow { ban, live: true });
        self.changed.insert(ban.key.user);
    }

    /// Adds bans of `users` users who are not banned.
    pub(crate) fn add_all(&mut self, bans: &[Ban], users: usize, max: u32) -> Result<(), MemberRefusal> {
        let count = self.count.saturating_add(u32::try_from(users).unwrap_or(u32::MAX));
        if users > 0 && count > max {
            return Err(MemberRefusal::TooManyBans(max));
        }
        self.count = count;
        bans.iter().for_each(|ban| self.put(*ban));
        Ok(())
    }

    fn end(&mut self, user: UserId) {
        if let Some(row) = self.rows.get_mut(&user).filter(|row| row.live) {
            row.live = false;
            self.changed.insert(user);
            self.count = self.count.saturating_sub(1);
        }
    }
}

impl From<Bans> for TransitionBans {
    fn from(Bans { named, count }: Bans) -> Self {
        let rows = named.into_iter().map(|ban| (ban.key.user, BanRow { ban, live: true }));
        Self { rows: rows.collect(), changed: BTreeSet::new(), count }
    }
}

impl MembershipTransition {
    /// Removes the users who are members, and bans all users. Returns the removed members.
    pub(crate) fn ban(
        &mut self,
        users: &[UserId],
        until: Option<Timestamp>,
        terms: ChangeContext,
    ) -> Result<Vec<UserId>, MemberRefusal> {
        if until.is_some_and(|until| until <= self.now) {
            return Err(MemberRefusal::BanIsOver);
        }
        let leaving = self.removable(users, terms)?;
        let named: BTreeSet<UserId> = users.iter().copied().collect();
        let as_wanted = |user: &UserId| self.bans.of(*user, self.now).is_some_and(|ban| ban.until == until);
        let to_ban: Vec<UserId> = named.into_iter().filter(|user| !as_wanted(user)).collect();
        let new = to_ban.iter().filter(|user| self.bans.of(**user, self.now).is_none()).count();
        let count = self.bans.count.saturating_add(u32::try_from(new).unwrap_or(u32::MAX));
        if new > 0 && count > terms.bans_max {
            return Err(MemberRefusal::TooManyBans(terms.bans_max));
        }
        self.bans.count = count;
        let leaving = self.end_memberships(leaving);
        if leaving.is_empty() && !to_ban.is_empty() {
            self.roster.version = self.roster.version.next();
        }
        for user in to_ban {
            let key = MemberKey { group: self.group, user };
            self.bans.put(Ban { key, by: terms.by, since: self.now, until });
        }
        Ok(leaving)
    }

    /// Ends these users' bans. Changes no member.
    pub(crate) fn unban(
        &mut self,
        users: &[UserId],
        terms: ChangeContext,
    ) -> Result<Vec<UserId>, MemberRefusal> {
        self.require_role(Role::Admin, terms)?;
        let banned = users.iter().filter(|user| self.bans.of(**user, self.now).is_some());
        let banned: BTreeSet<UserId> = banned.copied().collect();
        if !banned.is_empty() {
            self.roster.version = self.roster.version.next();
        }
        for user in banned {
            self.bans.end(user);
        }
        Ok(Vec::new())
    }

    /// Ends the ban of the user who founds the group: an owner is never banned.
    pub(crate) fn unban_owner(&mut self, owner: UserId) {
        self.bans.end(owner);
    }

    /// Ends all bans that were read. Returns whether there were any.
    pub(crate) fn end_bans(&mut self) -> bool {
        let users = self.bans.users();
        for user in &users {
            self.bans.end(*user);
        }
        !users.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GroupId, MemberChange, Roster, Version};

    const NOW: Timestamp = Timestamp(7);

    fn user(id: i64) -> UserId {
        UserId::new(id).unwrap()
    }

    fn by(user: i64) -> ChangeContext {
        ChangeContext { by: UserId::new(user).ok(), ..service() }
    }

    const fn service() -> ChangeContext {
        ChangeContext { by: None, members_max: 100, bans_max: 3, history: false }
    }

    /// User 1 owns it, 2 is an admin, 3 to 5 are members.
    fn transition() -> MembershipTransition {
        let mut transition = MembershipTransition::new(GroupId::new(9).unwrap(), Roster::default(), [], NOW);
        transition.change(&MemberChange::AddFounder(user(1)), service()).unwrap();
        transition.change(&MemberChange::Add((2..=5).map(user).collect()), by(1)).unwrap();
        transition.change(&MemberChange::SetRole(user(2), Role::Admin), by(1)).unwrap();
        transition
    }

    fn ban(ids: &[i64], until: Option<Timestamp>) -> MemberChange {
        MemberChange::Ban(ids.iter().copied().map(user).collect(), until)
    }

    #[test]
    fn ban_removes_and_keeps_out() {
        let mut transition = transition();
        assert_eq!(transition.change(&ban(&[3, 8], None), by(2)), Ok(vec![user(3)]));
        for id in [3, 8] {
            let join = MemberChange::Join(user(id));
            assert_eq!(transition.change(&join, by(id)), Err(MemberRefusal::Banned));
            let add = MemberChange::Add(vec![user(6), user(id)]);
            assert_eq!(transition.change(&add, service()), Err(MemberRefusal::Banned));
        }
        transition.change(&MemberChange::Unban(vec![user(3)]), by(2)).unwrap();
        assert_eq!(transition.change(&MemberChange::Join(user(3)), by(3)), Ok(vec![user(3)]));
    }

    #[test]
    fn ban_needs_a_higher_role() {
        let mut transition = transition();
        for (by_user, target) in [(2, 1), (2, 2), (3, 4), (3, 8), (8, 9)] {
            let refused = transition.change(&ban(&[target], None), by(by_user));
            assert_eq!(refused, Err(MemberRefusal::RoleTooLow), "{by_user} {target}");
        }
        assert_eq!(transition.change(&ban(&[1], None), service()), Err(MemberRefusal::OwnerStays));
        let unban = MemberChange::Unban(vec![user(8)]);
        assert_eq!(transition.change(&unban, by(3)), Err(MemberRefusal::RoleTooLow));
    }

    #[test]
    fn ban_ends_at_its_time() {
        let mut transition = transition();
        assert_eq!(transition.change(&ban(&[3], Some(NOW)), by(2)), Err(MemberRefusal::BanIsOver));
        transition.change(&ban(&[3], Some(Timestamp(9))), by(2)).unwrap();
        let bans: Vec<Ban> = transition.bans.changed().map(|row| row.ban).collect();
        assert_eq!((bans[0].by, bans[0].since), (Some(user(2)), NOW));
        for (now, expected) in [(8, Err(MemberRefusal::Banned)), (9, Ok(vec![user(3)]))] {
            let bans = Bans { named: bans.clone(), count: 1 };
            let mut read = MembershipTransition::new(transition.group, transition.roster, [], Timestamp(now))
                .with_bans(bans);
            assert_eq!(read.change(&MemberChange::Join(user(3)), by(3)), expected);
        }
    }

    #[test]
    fn bans_are_limited() {
        let mut transition = transition();
        transition.change(&ban(&[3, 8], None), by(1)).unwrap();
        let before = transition.roster;
        assert_eq!(transition.change(&ban(&[10, 11], None), by(1)), Err(MemberRefusal::TooManyBans(3)));
        assert_eq!(transition.roster, before);
        transition.change(&ban(&[3, 8, 10], Some(Timestamp(99))), by(1)).unwrap();
        transition.change(&MemberChange::Unban(vec![user(8), user(8)]), by(1)).unwrap();
        transition.change(&ban(&[11], None), by(1)).unwrap();
        assert_eq!(transition.change(&ban(&[12], None), by(1)), Err(MemberRefusal::TooManyBans(3)));
    }

    #[test]
    fn each_change_of_bans_raises_the_version() {
        let mut transition = transition();
        let mut expected: Version = transition.roster.version;
        let unban = MemberChange::Unban(vec![user(8)]);
        for (change, is_change) in
            [(&ban(&[8], None), true), (&ban(&[8], None), false), (&unban, true), (&unban, false)]
        {
            assert_eq!(transition.change(change, by(1)), Ok(Vec::new()));
            expected = if is_change { expected.next() } else { expected };
            assert_eq!(transition.roster.version, expected, "{change:?}");
        }
        transition.change(&ban(&[3, 4], None), by(1)).unwrap();
        assert_eq!(transition.roster.version, expected.next());
    }

    #[test]
    fn founder_is_never_banned() {
        let mut transition = transition();
        transition.change(&MemberChange::Transfer(user(2)), by(1)).unwrap();
        transition.change(&ban(&[1], None), by(2)).unwrap();
        transition.change(&MemberChange::AccountDeleted(user(2)), service()).unwrap();
        transition.change(&MemberChange::AddFounder(user(1)), service()).unwrap();
        assert!(transition.bans.of(user(1), NOW).is_none());
    }

    #[test]
    fn mute_outlives_the_membership() {
        for (until, kept) in [(Timestamp(9), Some(Timestamp(9))), (Timestamp(7), None)] {
            let mut transition = transition();
            transition.change(&MemberChange::Mute(user(3), Some(until)), by(2)).unwrap();
            transition.change(&MemberChange::Remark(user(3), "Bo".into()), by(3)).unwrap();
            transition.change(&MemberChange::Leave(user(3)), by(3)).unwrap();
            transition.change(&MemberChange::Join(user(3)), by(3)).unwrap();
            let member = &transition.row(user(3)).unwrap().member;
            assert_eq!((member.muted_until, &*member.remark), (kept, ""));
        }
    }

    #[test]
    fn dismissal_ends_mutes_of_former_members() {
        let mut transition = transition();
        transition.change(&MemberChange::Mute(user(3), Some(Timestamp(9))), by(2)).unwrap();
        transition.change(&MemberChange::Leave(user(3)), by(3)).unwrap();
        transition.end();
        let left =
            |id| transition.row(user(id)).is_none_or(|row| row.live || row.member.muted_until.is_some());
        assert!(!(1..=5).any(left));
        assert_eq!((transition.roster().count, transition.roster().owner), (0, None));
    }
}
