//! Ends memberships when their group is dismissed, or when their user's account is deleted.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_cache::Consistency;
use kith_store::{
    Applied, ConversationId, DOCUMENT, GroupId, MemberChange, MemberKey, MembersUpdated, Role, Roster, Seq,
    Timestamp, UserId, Version, Write,
};
use tokio::time::{Instant, sleep};

use super::{
    Members,
    membership_events::{EventKind, MembershipEvent},
    service::{BACKGROUND_LIMIT, store_error},
};
use crate::{
    error::{Error, Reason, or_none},
    rpc::{call::Principal, request::WriteContext},
    user::{AccountCleanup, Cleaned},
    write::mutations::Committed,
};

/// Groups that a deleted user leaves in one step.
const LEFT_AT_ONCE: usize = 20;
/// How many members of a dismissed group are ended in one step.
const ENDED_AT_ONCE: usize = 100;
/// The pauses before attempts to end a dismissed group's members.
const TRIED_AFTER: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(90)];

impl Members {
    /// Dismisses a group, and begins to end its members, also if the caller no longer waits. Returns the
    /// dismissal's version.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, ABORTED, INVALID_ARGUMENT, or errors of the store.
    pub(crate) async fn dismiss_group(
        &self,
        id: GroupId,
        context: WriteContext,
    ) -> Result<Committed<Version>, Error> {
        let (this, deadline) = (self.clone(), context.deadline);
        let work = async move {
            let written = this.groups.dismiss_group(id, context).await;
            match &written {
                Ok(_) => this.end(id),
                // The outcome is unknown. If the group was not dismissed, nothing is ended.
                Err(error) if error.reason() == Reason::StoreUnavailable => this.end(id),
                Err(_) => {}
            }
            written
        };
        self.mutations.call(deadline, Box::pin(work)).await
    }

    /// Must be called before a group is created under an id that the caller chose. If the id belonged to a
    /// dismissed group, its members are ended and its messages hidden when the call returns.
    pub(super) async fn clear_dismissed(&self, id: GroupId, deadline: Instant) -> Result<(), Error> {
        if !self.groups.was_dismissed(id).await? {
            return Ok(());
        }
        let this = self.clone();
        let work = async move {
            or_none(this.end_all(id).await)?;
            this.hide_messages(id, 0).await
        };
        self.mutations.call(deadline, Box::pin(work)).await
    }

    /// Hides a dismissed group's messages from all users, if it has more than `most`, and allows their
    /// removal. A new group with the same id starts above them.
    async fn hide_messages(&self, group: GroupId, most: Seq) -> Result<(), Error> {
        let conversation = ConversationId::Group(group);
        let end = self.messages.strong_end(conversation).await.map_err(store_error)?;
        // The group is read after the log's end: a newer group with this id has messages with higher numbers.
        if end <= most || self.group_created(group, &Consistency::Strong).await?.is_some() {
            return Ok(());
        }
        self.conversations.raise_min_seq(conversation, end + 1, true).await.map(drop)
    }

    /// Returns those of these groups that exist, in their order. For the others, starts to end their members
    /// again: the node that was doing so may have died.
    pub(super) async fn existing_groups(
        &self,
        groups: &[GroupId],
        consistency: &Consistency,
    ) -> Vec<GroupId> {
        let found = self.groups.get_many(groups, consistency).await;
        let mut existing = Vec::with_capacity(groups.len());
        for (group, found) in groups.iter().zip(found) {
            match found {
                Ok(None) => self.end(*group),
                // A group that cannot be read now may exist.
                Ok(Some(_)) | Err(_) => existing.push(*group),
            }
        }
        existing
    }

    /// Removes a user whose account has ended from some of its groups, and then ends its bans. Returns false
    /// if there was neither. A group that it owned gets an admin as its owner, or a member, or no owner if
    /// there is neither.
    async fn remove_from_some_groups(&self, user: UserId) -> Result<bool, Error> {
        let mut after = None;
        loop {
            let groups = self.store.memberships(user, after, LEFT_AT_ONCE).await.map_err(store_error);
            let groups = or_none(groups)?;
            let mut removed = false;
            for group in &groups {
                let (this, group) = (self.clone(), *group);
                let work = async move { this.remove_from_group(group, user).await };
                removed |= self.mutations.run(Instant::now() + BACKGROUND_LIMIT, Box::pin(work)).await?;
            }
            // The list may be old: all groups of this page may have been left before, and others may follow.
            if removed {
                return Ok(true);
            }
            if groups.len() < LEFT_AT_ONCE {
                return or_none(self.end_bans_of(user).await);
            }
            after = groups.last().copied();
        }
    }

    /// Removes a user from a group; if the user is its owner, transfers the group first. Returns false if the
    /// user was not a member.
    async fn remove_from_group(&self, group: GroupId, user: UserId) -> Result<bool, Error> {
        let context = self.change_context(Principal::Service);
        let write = || Write::at(Timestamp::now());
        if self.roster(group, &Consistency::Strong).await?.owner == Some(user)
            && let Some(owner) = self.next_owner(group, user).await?
        {
            match self.change(group, MemberChange::Transfer(owner), context, write()).await {
                // The new owner left meanwhile: then the group has no owner.
                Err(error) if error.reason() == Reason::NotFound => {}
                changed => drop(changed?),
            }
        }
        let removed = self.change(group, MemberChange::AccountDeleted(user), context, write()).await;
        removed.map(|done| !done.record.rows.is_empty())
    }

    /// The group's next owner: the admin with the lowest id, or else the member with the lowest id.
    async fn next_owner(&self, group: GroupId, user: UserId) -> Result<Option<UserId>, Error> {
        for least in [Role::Admin, Role::Member] {
            let some = self.store.member_list(group, least, None, 2).await.map_err(store_error)?;
            let others = some.iter().map(|member| member.key.user).filter(|other| *other != user);
            if let Some(owner) = others.min() {
                return Ok(Some(owner));
            }
        }
        Ok(None)
    }

    /// Starts to end a dismissed group's members, unless this node is doing so already. Continues in the
    /// background; failures are retried. The steps' events contain no ended memberships.
    fn end(&self, group: GroupId) {
        if !self.ending.groups.lock().insert(group) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let mut ended = Ok(());
            for pause in TRIED_AFTER {
                sleep(pause).await;
                ended = this.end_rest(group).await;
                if ended.is_ok() {
                    break;
                }
            }
            if let Err(error) = ended {
                tracing::warn!(%error, "members of a dismissed group could not be ended; retried when the groups of one of them are listed");
            }
            this.ending.groups.lock().remove(&group);
        });
    }

    async fn end_rest(&self, group: GroupId) -> Result<(), Error> {
        let this = self.clone();
        let work = async move {
            // First: once no member is left, this is not retried. A shorter log has nothing to remove.
            let hidden = this.hide_messages(group, DOCUMENT).await;
            or_none(this.end_all(group).await)?;
            hidden
        };
        self.mutations.run(Instant::now() + BACKGROUND_LIMIT, Box::pin(work)).await
    }

    /// Ends members first, then bans and the mutes of former members, in steps. Invalidates the copies of a
    /// step's members before and after it.
    async fn end_all(&self, group: GroupId) -> Result<(), Error> {
        self.notify_dismissed(group).await?;
        loop {
            let step = self.ending.step.lock().await;
            let some = self.store.member_list(group, Role::Member, None, ENDED_AT_ONCE).await;
            let users: Vec<UserId> =
                some.map_err(store_error)?.iter().map(|member| member.key.user).collect();
            // If a new group has the id, the members are its own.
            if self.group_created(group, &Consistency::Strong).await?.is_some() {
                return Ok(());
            }
            let keys = users.iter().map(|user| MemberKey { group, user: *user }).collect();
            let change = MemberChange::Remove(users);
            let others = self.changed_with_members(group, &change).await;
            // There are no rows, and so no deciders: the admins' invites were closed with the group.
            let event = EventKind::of(&change).event(group, change.users(), &[]);
            let store = Arc::clone(&self.store);
            let write = Box::pin(async move {
                let count = store.end_members(group, ENDED_AT_ONCE, Timestamp::now()).await?;
                let roster = Roster { count, ..Roster::default() };
                Ok(Applied {
                    record: MembersUpdated { roster, ..MembersUpdated::default() },
                    replayed: false,
                })
            });
            let ended = self.write_members(group, keys, others, write).await?;
            drop(step);
            self.notify(event).await;
            if ended.record.roster.count == 0 {
                return Ok(());
            }
        }
    }

    /// Notifies the listeners that a group is dismissed, before its members leave.
    async fn notify_dismissed(&self, group: GroupId) -> Result<(), Error> {
        let _step = self.ending.step.lock().await;
        match self.group_created(group, &Consistency::Strong).await? {
            None => self.listeners.notify(&MembershipEvent::Dismissed(group)).await,
            // Another group has the id.
            Some(_) => Ok(()),
        }
    }
}

#[async_trait]
impl AccountCleanup for Members {
    async fn clean_up(&self, user: UserId) -> Result<Cleaned, Error> {
        Ok(if self.remove_from_some_groups(user).await? { Cleaned::Some } else { Cleaned::All })
    }
}
