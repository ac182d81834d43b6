//! Member changes: the ways to join, and invalidation.

use std::sync::Arc;

use futures::future::BoxFuture;
use kith_cache::{Change, Consistency, WriteParts};
use kith_store::{
    Applied, ChangeContext, Group, GroupId, JoinPolicy, Member, MemberChange, MemberKey, MemberRow,
    MembersUpdated, Roster, StoreError, UserId, Visibility, Write,
};

use super::{
    Members,
    membership_events::{EventKind, MembershipEvent},
    service::store_error,
};
use crate::{
    error::{Error, Reason},
    rpc::{
        call::Principal,
        request::WriteContext,
        versions::{Versioned, put},
    },
    write::mutations::{Committed, MembersChanges, MembersWrite},
};

/// Members of larger changes are read when they are asked for.
const PUT_MAX: usize = 8;

impl Members {
    /// Changes group members. Returns what changed.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION, ABORTED, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn apply_change(
        &self,
        id: GroupId,
        change: MemberChange,
        context: WriteContext,
    ) -> Result<Committed<MembersUpdated>, Error> {
        let write = context.write(&self.hasher).await?;
        let this = self.clone();
        let work = async move {
            let group = this.group(id).await?;
            this.check_users_exist(&change).await?;
            let change_context = this.change_context_of(&group, context.principal);
            this.change(id, change, change_context, write).await
        };
        self.mutations.call(context.deadline, Box::pin(work)).await
    }

    /// Changes one member. Returns the member after the change.
    ///
    /// # Errors
    /// The errors of [`Self::apply_change`].
    pub(super) async fn change_member(
        &self,
        key: MemberKey,
        change: MemberChange,
        context: WriteContext,
    ) -> Result<Committed<Member>, Error> {
        let Committed { record, token } = self.apply_change(key.group, change, context).await?;
        let record = match record.rows.iter().find(|row| row.member.key == key) {
            Some(row) => Arc::new(row.member.clone()),
            None => self.read_member(key, &Consistency::Cached).await?.value,
        };
        Ok(Committed { record, token })
    }

    /// Makes a member the owner. Returns what changed.
    ///
    /// # Errors
    /// The errors of [`Self::apply_change`].
    pub(crate) async fn transfer_group(
        &self,
        id: GroupId,
        owner: UserId,
        context: WriteContext,
    ) -> Result<Committed<MembersUpdated>, Error> {
        self.apply_change(id, MemberChange::Transfer(owner), context).await
    }

    /// Adds a user on its own request, if the group's join policy allows it. Users join for themselves.
    /// Returns the member.
    ///
    /// # Errors
    /// The errors of [`Self::apply_change`], and RESOURCE_EXHAUSTED after too many attempts with a code.
    pub(super) async fn join(
        &self,
        key: MemberKey,
        code: &str,
        context: WriteContext,
    ) -> Result<Committed<Member>, Error> {
        if let Principal::User(user) = context.principal {
            if user != key.user {
                return Err(Error::not_allowed("users join for themselves"));
            }
            let group = self.group(key.group).await?;
            self.check_join_policy(&group, user, code).await?;
        }
        self.change_member(key, MemberChange::Join(key.user), context).await
    }

    /// Ends a user's membership on its own request. Users leave for themselves. Returns what changed.
    ///
    /// # Errors
    /// The errors of [`Self::apply_change`].
    pub(super) async fn leave(
        &self,
        key: MemberKey,
        context: WriteContext,
    ) -> Result<Committed<MembersUpdated>, Error> {
        if let Principal::User(user) = context.principal
            && user != key.user
        {
            return Err(Error::not_allowed("users leave for themselves"));
        }
        self.apply_change(key.group, MemberChange::Leave(key.user), context).await
    }

    /// Makes a change in the store, which checks whether it is allowed. Invalidates copies of the members,
    /// lists and roster that it changes, and notifies the listeners.
    pub(super) async fn change(
        &self,
        group: GroupId,
        change: MemberChange,
        context: ChangeContext,
        write: Write,
    ) -> Result<Committed<MembersUpdated>, Error> {
        let keys: Vec<MemberKey> = self.keys(group, &change).await?;
        let (kind, users) = (EventKind::of(&change), change.users());
        let others = self.changed_with_members(group, &change).await;
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move { store.change_members(group, change, context, write).await });
        let done = self.write_members(group, keys, others, write).await?;
        self.notify(kind.event(group, users, &done.record.rows)).await;
        Ok(done)
    }

    /// Notifies the listeners about a stored change. Logs a failure and does not return it, since the change
    /// is stored. A listener that failed has to catch up later.
    pub(super) async fn notify(&self, event: Option<MembershipEvent>) {
        let Some(event) = event else { return };
        if let Err(error) = self.listeners.notify(&event).await {
            tracing::warn!(%error, "a listener could not handle a change of members");
        }
    }

    /// Runs a write to these members, and publishes it with what else it changes. It may change others, too:
    /// a transfer reads the previous owner before its write, and the owner may change in between.
    pub(super) async fn write_members(
        &self,
        group: GroupId,
        keys: Vec<MemberKey>,
        others: Vec<WriteParts>,
        write: BoxFuture<'static, Result<Applied<MembersUpdated>, StoreError>>,
    ) -> Result<Committed<MembersUpdated>, Error> {
        let roster = self.roles.rosters.begin_write(&[group]).await;
        let job = MembersWrite { group, keys, roster, write, changes };
        let written = self.mutations.write_members(&self.roles.members, job, others).await;
        written.map_err(store_error)
    }

    /// The users whom the change may affect. A transfer also changes the previous owner.
    async fn keys(&self, group: GroupId, change: &MemberChange) -> Result<Vec<MemberKey>, Error> {
        let mut users = change.users();
        if matches!(change, MemberChange::Transfer(_)) {
            users.extend(self.roster(group, &Consistency::Strong).await?.owner);
        }
        users.sort_unstable();
        users.dedup();
        Ok(users.into_iter().map(|user| MemberKey { group, user }).collect())
    }

    /// Returns the lists that a member change touches: the group's members, each user's groups.
    pub(super) async fn changed_with_members(
        &self,
        group: GroupId,
        change: &MemberChange,
    ) -> Vec<WriteParts> {
        let (members, groups) = match change {
            change if EventKind::of(change).changes_members() => (true, true),
            MemberChange::Import(_) => (true, true),
            MemberChange::SetRole(..) | MemberChange::Transfer(_) => (true, false),
            _ => (false, false),
        };
        let mut others = Vec::new();
        if members {
            others.push(self.lists.members.begin_write(&[group]).await);
        }
        if groups {
            others.push(self.lists.groups.begin_write(&change.users()).await);
        }
        others
    }

    /// Checks that the users whom the change adds, bans or makes owner exist.
    pub(super) async fn check_users_exist(&self, change: &MemberChange) -> Result<(), Error> {
        let coming = match change {
            MemberChange::Join(_)
            | MemberChange::Add(_)
            | MemberChange::Transfer(_)
            | MemberChange::Ban(..) => change.users(),
            MemberChange::Import(rows) => {
                rows.iter().filter(|row| row.live).map(|row| row.member.key.user).collect()
            }
            _ => return Ok(()),
        };
        for found in self.users.get_many(&coming, &Consistency::Cached).await {
            if found?.is_none() {
                return Err(Error::not_found("user"));
            }
        }
        Ok(())
    }

    async fn check_join_policy(&self, group: &Group, user: UserId, code: &str) -> Result<(), Error> {
        let key = MemberKey { group: group.id, user };
        if self.roles.of(group, user).await?.is_some() {
            return Ok(());
        }
        match (group.join_policy, group.visibility) {
            (JoinPolicy::Open, Visibility::Public) => Ok(()),
            (JoinPolicy::Code, _) | (JoinPolicy::Open, Visibility::Private) => {
                self.check_code(key, code).await
            }
            (JoinPolicy::Approval, _) => Err(closed("by approval: apply for it")),
            (JoinPolicy::Invite, _) => Err(closed("by invitation")),
        }
    }

    /// Checks that a user knows a group's code.
    pub(super) async fn check_code(&self, key: MemberKey, code: &str) -> Result<(), Error> {
        // Counted before the comparison: after too many attempts, the error must not show whether the code is
        // correct.
        self.attempts.count(&key)?;
        if self.groups.is_code(key.group, code).await? {
            return Ok(());
        }
        Err(Error::not_allowed("the code is not that of the group"))
    }
}

pub(super) fn closed(how: &str) -> Error {
    Error::new(Reason::StateForbids, format!("the group is joined {how}"))
}

/// The changes in the tiers. A repeated request returns what an earlier change left, and there may be later
/// ones.
fn changes(applied: &Applied<MembersUpdated>) -> MembersChanges<Member, Roster> {
    let MembersUpdated { roster, rows, .. } = &applied.record;
    let is_put = !applied.replayed && (1..=PUT_MAX).contains(&rows.len());
    let member = |row: &MemberRow| (row.member.key, put_if(is_put && row.live, &row.member));
    MembersChanges { members: rows.iter().map(member).collect(), roster: put_if(is_put, roster) }
}

/// Puts a record in the tiers, or drops their copies.
fn put_if<T: Versioned + Clone>(is_put: bool, record: &T) -> Change<T> {
    if is_put { put(&Arc::new(record.clone())) } else { Change::Invalidate { version: None } }
}

#[cfg(test)]
mod tests {
    use kith_store::{Role, StayHistory, Text, Timestamp, Version};

    use super::*;
    use crate::sample::user;

    fn row(id: i64, live: bool) -> MemberRow {
        let key = MemberKey { group: GroupId::new(1).unwrap(), user: user(id) };
        let member = Member {
            key,
            version: Version::FIRST,
            role: Role::Member,
            ordinal: 0,
            remark: Text::default(),
            muted_until: None,
            joined: Timestamp(1),
            from_seq: 1,
            joined_seq: 1,
        };
        MemberRow { member, live, stays: StayHistory::default() }
    }

    /// Whether all members, and the roster, are put.
    fn puts(rows: Vec<MemberRow>, replayed: bool) -> (bool, bool) {
        let roster = Roster { version: Version::FIRST, ..Roster::default() };
        let record = MembersUpdated { roster, rows, bans: Vec::new() };
        let MembersChanges { members, roster } = changes(&Applied { record, replayed });
        let is_put = members.iter().all(|(_, change)| matches!(change, Change::Put { .. }));
        (is_put, matches!(roster, Change::Put { .. }))
    }

    #[test]
    fn only_small_new_changes_are_put() {
        let many = (1..10).map(|id| row(id, true)).collect();
        assert_eq!(puts(vec![row(1, true), row(2, true)], false), (true, true));
        assert_eq!(puts(vec![row(1, false)], false), (false, true), "it left");
        assert_eq!(puts(vec![row(1, true)], true), (false, false), "a repeated request");
        assert_eq!(puts(many, false), (false, false), "many");
        assert!(!puts(Vec::new(), false).1, "nothing has changed");
    }
}
