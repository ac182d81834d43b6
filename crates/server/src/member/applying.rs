//! What applications ask of groups: whether one may be made, who hears of it, and to take in who was accepted.

use kith_cache::Consistency;
use kith_store::{
    Group, GroupId, JoinPolicy, MemberChange, MemberKey, MembersChanged, Role, UserId, Visibility,
};

use super::{
    Members,
    members::{closed, store_error},
};
use crate::{
    call::Acting,
    error::{Error, Reason},
    mutation::Written,
    request::Terms,
};

impl Members {
    /// Makes sure that a user may ask a group to be let in: of one that is joined by approval, or by code with the code.
    ///
    /// # Errors
    /// NOT_FOUND, FAILED_PRECONDITION, PERMISSION_DENIED, RESOURCE_EXHAUSTED after too many codes, or what a failing store
    /// makes.
    pub(crate) async fn may_apply(&self, key: MemberKey, code: &str) -> Result<(), Error> {
        let group = self.group(key.group).await?;
        self.not_in(&group, key.user).await?;
        self.not_banned(key).await?;
        match (group.join_policy, group.visibility) {
            (JoinPolicy::Open, Visibility::Public) => Err(closed("by whoever wants to: join it")),
            (JoinPolicy::Invite, _) => Err(closed("by invitation: its admins invite")),
            (JoinPolicy::Approval, _) if code.is_empty() => Ok(()),
            (JoinPolicy::Approval | JoinPolicy::Code, _) | (JoinPolicy::Open, Visibility::Private) => {
                self.is_code(key, code).await
            }
        }
    }

    /// Makes sure that whoever acts may invite a user into a group: its owner and admins, and where whoever wants to joins, its
    /// members.
    ///
    /// # Errors
    /// NOT_FOUND, FAILED_PRECONDITION, PERMISSION_DENIED, or what a failing store makes.
    pub(crate) async fn may_invite(&self, key: MemberKey, acting: Acting) -> Result<(), Error> {
        let group = self.group(key.group).await?;
        let is_open = (group.join_policy, group.visibility) == (JoinPolicy::Open, Visibility::Public);
        let least = if is_open { Role::Member } else { Role::Admin };
        self.roles.allow(&group, acting, least).await?;
        self.not_in(&group, key.user).await?;
        self.not_banned(key).await
    }

    /// Makes sure that whoever acts decides for a group: its owner, its admins, and services.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or what a failing store makes.
    pub(crate) async fn may_decide(&self, id: GroupId, acting: Acting) -> Result<(), Error> {
        let group = self.group(id).await?;
        self.roles.allow(&group, acting, Role::Admin).await
    }

    /// The owner and the admins of a group, at most so many.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(crate) async fn deciders(&self, group: GroupId, limit: usize) -> Result<Vec<UserId>, Error> {
        let above = self.store.member_list(group, Role::Admin, None, limit).await.map_err(store_error)?;
        Ok(above.into_iter().map(|member| member.key.user).collect())
    }

    /// Makes sure that a group exists, and that the user is a member or may become one: not banned, and the group not full.
    ///
    /// # Errors
    /// NOT_FOUND, FAILED_PRECONDITION, or what a failing store makes.
    pub(crate) async fn has_room(&self, key: MemberKey) -> Result<(), Error> {
        let group = self.group(key.group).await?;
        if self.roles.of(&group, key.user).await?.is_some() {
            return Ok(());
        }
        self.not_banned(key).await?;
        let roster = self.roster(key.group, &Consistency::Cached).await?;
        if roster.count < self.rules.members_max {
            return Ok(());
        }
        Err(Error::new(Reason::StateForbids, "the group has as many members as it may"))
    }

    /// Takes in who was accepted; whoever is in stays as it is.
    ///
    /// # Errors
    /// NOT_FOUND, FAILED_PRECONDITION, or what a failing store makes.
    pub(crate) async fn take_in(
        &self,
        key: MemberKey,
        terms: Terms,
    ) -> Result<Written<MembersChanged>, Error> {
        self.set(key.group, MemberChange::Add(vec![key.user]), terms).await
    }

    async fn not_in(&self, group: &Group, user: UserId) -> Result<(), Error> {
        match self.roles.of(group, user).await? {
            None => Ok(()),
            Some(_) => Err(Error::new(Reason::StateForbids, "the user is a member of the group already")),
        }
    }
}
