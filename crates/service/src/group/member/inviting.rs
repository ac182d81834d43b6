//! Users who bring others into a group: their friends are added, all others are invited (ADR 0053).

use std::{collections::HashSet, fmt};

use async_trait::async_trait;
use kith_cache::Consistency;
use kith_store::{GroupId, MemberChange, MemberKey, MembersUpdated, Role, UserId};

use super::{AddedByUsers, Members};
use crate::{
    error::Error,
    rpc::{call::Principal, request::WriteContext},
    write::mutations::Committed,
};

/// The friends and invitations that group members need. The application domain implements it.
#[async_trait]
pub trait GroupInvitations: fmt::Debug + Send + Sync {
    /// Returns a user's friends among others. A user who has blocked the other is no friend.
    async fn friends_among(&self, user: UserId, others: &[UserId]) -> Result<HashSet<UserId>, Error>;

    /// Invites a user into a group. Succeeds also if the user does not allow it, so that no caller learns
    /// why.
    async fn invite(&self, key: MemberKey, by: UserId, context: WriteContext) -> Result<(), Error>;
}

/// The result when a user adds others.
#[derive(Debug)]
pub(super) struct AddedOrInvited {
    pub(super) added: Committed<MembersUpdated>,
    /// The users who are neither members nor friends, in the request's order.
    pub(super) invited: Vec<UserId>,
}

impl Members {
    /// Whether this principal adds users only with their consent.
    pub(super) fn needs_consent(&self, principal: Principal) -> Option<UserId> {
        principal.user().filter(|_| self.rules.added_by_users == AddedByUsers::Friends)
    }

    /// Adds a user's friends to a group, and invites the others: strangers, and those who have blocked the
    /// user, with one answer. Changes nothing if any user is banned.
    ///
    /// # Errors
    /// The errors of [`Self::apply_change`].
    pub(super) async fn add_or_invite(
        &self,
        id: GroupId,
        users: Vec<UserId>,
        by: UserId,
        context: WriteContext,
        invitations: &dyn GroupInvitations,
    ) -> Result<AddedOrInvited, Error> {
        self.check_users_exist(&MemberChange::Add(users.clone())).await?;
        let members = self.users_among(id, &users, &Consistency::Cached).await?;
        let mut known = invitations.friends_among(by, &users).await?;
        known.extend(members);
        let (mut adding, mut invited): (Vec<_>, Vec<_>) =
            users.into_iter().partition(|user| known.contains(user));
        let mut seen = HashSet::new();
        invited.retain(|user| seen.insert(*user));
        self.check_none_banned(id, &invited, by).await?;
        if adding.is_empty() {
            // The store checks the role: the user is a member already.
            adding.push(by);
        }
        let added = self.apply_change(id, MemberChange::Add(adding), context.clone()).await?;
        for user in &invited {
            let seed = context.seed.as_ref().map(|seed| seed.part(&format!("invite-{user}")));
            let context = WriteContext { seed, ..context.clone() };
            invitations.invite(MemberKey { group: id, user: *user }, by, context).await?;
        }
        Ok(AddedOrInvited { added, invited })
    }

    /// Checks the bans of users who will be invited. Only users who may see the group's bans learn about
    /// them.
    async fn check_none_banned(&self, id: GroupId, users: &[UserId], by: UserId) -> Result<(), Error> {
        let group = self.group(id).await?;
        if self.roles.of(&group, by).await?.is_none_or(|role| role < Role::Admin) {
            return Ok(());
        }
        for user in users {
            self.check_not_banned(MemberKey { group: id, user: *user }).await?;
        }
        Ok(())
    }
}
