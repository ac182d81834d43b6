//! The group interface for applications: checks whether an application may be made, names who is notified,
//! and admits accepted users.

use kith_cache::Consistency;
use kith_store::{
    Group, GroupBasis, GroupId, JoinPolicy, MemberChange, MemberKey, MembersUpdated, Role, Stored, Timestamp,
    UserId, Version, Visibility,
};

use super::{Members, service::store_error, writes::closed};
use crate::{
    error::{Error, Reason},
    rpc::{call::Principal, request::WriteContext},
    write::mutations::Committed,
};

impl Members {
    /// The preconditions for an application to a group.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(crate) async fn basis(&self, id: GroupId) -> Result<GroupBasis, Error> {
        let group = self.group(id).await?;
        let roster = self.roster(id, &Consistency::Cached).await?;
        Ok(GroupBasis { created: group.created, roster: roster.version })
    }

    /// When a group was created; `None`: it does not exist.
    pub(crate) async fn group_created(
        &self,
        id: GroupId,
        consistency: &Consistency,
    ) -> Result<Option<Timestamp>, Error> {
        match self.groups.get_group(id, consistency).await {
            Ok(entry) => Ok(Some(entry.value.created)),
            Err(error) if error.reason() == Reason::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a user is a member, or left after this roster version. `None`: only whether the user is a
    /// member. Reads the store.
    pub(crate) async fn was_member_since(
        &self,
        key: MemberKey,
        since: Option<Version>,
    ) -> Result<bool, Error> {
        let found = self.store.members(&[key]).await.map_err(store_error)?;
        Ok(match found.first() {
            Some((_, Stored::Live(_))) => true,
            Some((_, Stored::Deleted(left))) => since.is_some_and(|since| *left > since),
            Some((_, Stored::Never)) | None => false,
        })
    }

    /// Whether a user is a member. Sees every acknowledged change.
    pub(crate) async fn is_member(&self, key: MemberKey) -> Result<bool, Error> {
        let members = self.get_existing(&[key], &Consistency::Cached).await?;
        Ok(!members.is_empty())
    }

    /// Checks that a user may apply to a group: a group that is joined by approval, or by code if the code is
    /// given.
    ///
    /// # Errors
    /// NOT_FOUND, FAILED_PRECONDITION, PERMISSION_DENIED, RESOURCE_EXHAUSTED after too many attempts, or
    /// errors of the store.
    pub(crate) async fn may_apply(&self, key: MemberKey, code: &str) -> Result<(), Error> {
        let group = self.group(key.group).await?;
        self.check_not_member(&group, key.user).await?;
        self.check_not_banned(key).await?;
        match (group.join_policy, group.visibility) {
            (JoinPolicy::Open, Visibility::Public) => Err(closed("without approval: join it")),
            (JoinPolicy::Invite, _) => Err(closed("by invitation: its admins invite")),
            (JoinPolicy::Approval, _) if code.is_empty() => Ok(()),
            (JoinPolicy::Approval | JoinPolicy::Code, _) | (JoinPolicy::Open, Visibility::Private) => {
                self.check_code(key, code).await
            }
        }
    }

    /// Checks that the principal may invite a user into a group: its owner and admins, and in a group that
    /// every user may join, its members.
    ///
    /// # Errors
    /// NOT_FOUND, FAILED_PRECONDITION, PERMISSION_DENIED, or errors of the store.
    pub(crate) async fn may_invite(&self, key: MemberKey, principal: Principal) -> Result<(), Error> {
        let group = self.group(key.group).await?;
        self.roles.allow(&group, principal, least_inviter(&group)).await?;
        self.check_not_member(&group, key.user).await?;
        self.check_not_banned(key).await
    }

    /// Whether the principal may invite users into a group, if the group exists.
    pub(crate) async fn is_inviter(&self, id: GroupId, principal: Principal) -> Result<bool, Error> {
        let allowed = match self.groups.get_group(id, &Consistency::Strong).await {
            Ok(group) => self.roles.allow(&group.value, principal, least_inviter(&group.value)).await,
            Err(error) => Err(error),
        };
        match allowed {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.reason(), Reason::NotAllowed | Reason::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Checks that the principal is a group's owner or an admin, or a service.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or errors of the store.
    pub(crate) async fn may_decide(&self, id: GroupId, principal: Principal) -> Result<(), Error> {
        let group = self.group(id).await?;
        self.roles.allow(&group, principal, Role::Admin).await
    }

    /// A group's owner and admins, at most this many.
    pub(crate) async fn deciders(&self, group: GroupId, limit: usize) -> Result<Vec<UserId>, Error> {
        let above = self.store.member_list(group, Role::Admin, None, limit).await.map_err(store_error)?;
        Ok(above.into_iter().map(|member| member.key.user).collect())
    }

    /// Checks that a group exists, and that the user is a member or may join: it is not banned, and the group
    /// is not full.
    ///
    /// # Errors
    /// NOT_FOUND, FAILED_PRECONDITION, or errors of the store.
    pub(crate) async fn check_room(&self, key: MemberKey) -> Result<(), Error> {
        let group = self.group(key.group).await?;
        if self.roles.of(&group, key.user).await?.is_some() {
            return Ok(());
        }
        self.check_not_banned(key).await?;
        let roster = self.roster(key.group, &Consistency::Cached).await?;
        if roster.count < self.rules.members_max {
            return Ok(());
        }
        Err(Error::new(Reason::StateForbids, "the group has as many members as it may"))
    }

    /// Adds an accepted application's user; a member is unchanged.
    ///
    /// # Errors
    /// NOT_FOUND, FAILED_PRECONDITION, or errors of the store.
    pub(crate) async fn admit(
        &self,
        key: MemberKey,
        context: WriteContext,
    ) -> Result<Committed<MembersUpdated>, Error> {
        self.apply_change(key.group, MemberChange::Add(vec![key.user]), context).await
    }

    async fn check_not_member(&self, group: &Group, user: UserId) -> Result<(), Error> {
        match self.roles.of(group, user).await? {
            None => Ok(()),
            Some(_) => Err(Error::new(Reason::StateForbids, "the user is a member of the group already")),
        }
    }
}

/// The role that is needed to invite users to a group.
fn least_inviter(group: &Group) -> Role {
    let is_open = (group.join_policy, group.visibility) == (JoinPolicy::Open, Visibility::Public);
    if is_open { Role::Member } else { Role::Admin }
}
