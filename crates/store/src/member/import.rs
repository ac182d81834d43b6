//! How imports of members and bans are decided.

use std::collections::BTreeSet;

use crate::{Ban, ChangeContext, MemberRefusal, MemberRow, MembershipTransition, Role, UserId, Version};

impl MemberRow {
    /// Whether an import of `sent` made this row, apart from what a store sets itself: version and ordinal.
    #[must_use]
    pub fn is_imported(&self, sent: &Self) -> bool {
        let (version, ordinal) = (self.member.version, self.member.ordinal);
        let mut sent = sent.clone();
        (sent.member.version, sent.member.ordinal) = (version, ordinal);
        *self == sent
    }

    /// Whether it is the row of a founder whom nothing has changed since.
    fn is_untouched_founder(&self) -> bool {
        self.live && self.member.version == Version::FIRST && self.member.role == Role::Owner
    }
}

impl MembershipTransition {
    /// Adds present and former members as they were elsewhere. Leaves out users who have a row already, apart
    /// from the founder's first one, and a second owner. New rows get the next ordinals, in the given order.
    pub(crate) fn import(
        &mut self,
        sent: &[MemberRow],
        terms: ChangeContext,
    ) -> Result<Vec<UserId>, MemberRefusal> {
        self.require_service(terms)?;
        let mut imported = Vec::new();
        for row in sent {
            let user = row.member.key.user;
            let before = self.rows.get(&user);
            let replaces =
                before.is_none_or(|before| before.is_untouched_founder() && !before.is_imported(row));
            let owner = self.roster.owner.filter(|owner| *owner != user);
            let is_second = row.live && row.member.role == Role::Owner && owner.is_some();
            if replaces && !is_second && !imported.contains(&user) {
                self.put_imported(row, terms)?;
                imported.push(user);
            }
        }
        imported.sort_unstable();
        if let Some(version) = self.begin_change(&imported) {
            for user in &imported {
                if let Some(row) = self.rows.get_mut(user) {
                    row.member.version = version;
                }
            }
        }
        Ok(imported)
    }

    fn put_imported(&mut self, sent: &MemberRow, terms: ChangeContext) -> Result<(), MemberRefusal> {
        let (user, mut row) = (sent.member.key.user, sent.clone());
        let before = self.rows.get(&user);
        let was_live = before.is_some_and(|before| before.live);
        if row.live && !was_live && self.roster.count >= terms.members_max {
            return Err(MemberRefusal::Full);
        }
        row.member.ordinal = before.map_or(self.roster.ordinals, |before| before.member.ordinal);
        self.roster.ordinals = self.roster.ordinals.max(row.member.ordinal.saturating_add(1));
        self.roster.count = (self.roster.count + u32::from(row.live)).saturating_sub(u32::from(was_live));
        if row.live && row.member.role == Role::Owner {
            self.roster.owner = Some(user);
        } else if self.roster.owner == Some(user) {
            self.roster.owner = None;
        }
        self.rows.insert(user, row);
        Ok(())
    }

    /// Adds bans with their makers and times. Leaves out users who are banned already, or are members.
    pub(crate) fn import_bans(
        &mut self,
        sent: &[Ban],
        terms: ChangeContext,
    ) -> Result<Vec<UserId>, MemberRefusal> {
        self.require_service(terms)?;
        let is_free = |ban: &&Ban| {
            let user = ban.key.user;
            self.bans.of(user, self.now).is_none() && self.rows.get(&user).is_none_or(|row| !row.live)
        };
        let new: Vec<Ban> = sent.iter().filter(is_free).copied().collect();
        let count: BTreeSet<UserId> = new.iter().map(|ban| ban.key.user).collect();
        self.bans.add_all(&new, count.len(), terms.bans_max)?;
        if !new.is_empty() {
            self.roster.version = self.roster.version.next();
        }
        Ok(Vec::new())
    }

    fn require_service(&self, terms: ChangeContext) -> Result<(), MemberRefusal> {
        terms.by.map_or(Ok(()), |_| Err(MemberRefusal::RoleTooLow))
    }
}
