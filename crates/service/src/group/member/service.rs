//! Group members: caching, founding groups, and who may see members.

use std::{collections::HashSet, num::NonZeroU32, sync::Arc, time::Duration};

use kith_cache::{Consistency, Entry};
use kith_store::{
    ChangeContext, Group, GroupId, Member, MemberChange, MemberKey, MemberStore, MessageStore, Role, Roster,
    StoreError, Timestamp, UserId, Visibility, Write,
};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::{
    AddedByUsers, MemberListPolicies, Roles,
    lists::{MemberLists, MemberPageKey},
    membership_events::MembershipListeners,
};
use crate::{
    conversation::ConversationRecords,
    domain_context::DomainContext,
    error::{Error, Reason},
    group::{Groups, convert::GroupDraft},
    rpc::{
        call::Principal,
        request::WriteContext,
        secret::{AttemptLimiter, PlainSecrets, SecretHasher},
    },
    user::Users,
    write::mutations::{Committed, Mutations},
};

pub(super) const KIND: &str = "member";
/// Time limit of work without a request's deadline: founding a group, ending members or bans.
pub(super) const BACKGROUND_LIMIT: Duration = Duration::from_secs(10);
/// How long CreateGroup waits until the group is founded.
const FOUNDING_WAIT: Duration = Duration::from_millis(500);

/// The configuration for members.
#[derive(Clone, Copy, Debug)]
pub struct MemberRules {
    /// The largest number of group members.
    pub members_max: u32,
    /// The largest number of group bans.
    pub bans_max: u32,
    /// How often each user may try a group's code in a minute.
    pub code_tries_per_minute: NonZeroU32,
    /// Whom a user may add without asking.
    pub added_by_users: AddedByUsers,
}

/// A deployment's members, through this node's tiers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Members {
    pub(super) roles: Roles,
    pub(super) lists: MemberLists,
    pub(super) groups: Groups,
    pub(super) store: Arc<dyn MemberStore>,
    /// Finds where a group's message log ends.
    pub(super) messages: Arc<dyn MessageStore>,
    pub(super) conversations: ConversationRecords,
    pub(super) users: Users,
    pub(super) mutations: Mutations,
    pub(super) hasher: SecretHasher,
    pub(super) attempts: Arc<AttemptLimiter<MemberKey>>,
    pub(super) rules: MemberRules,
    /// Dismissed groups whose members are being ended.
    pub(super) ending: Arc<EndingGroups>,
    /// Notified about joins, leaves, demotions and dismissals.
    pub(super) listeners: MembershipListeners,
}

/// Dismissed groups whose members are being ended.
#[derive(Debug, Default)]
pub(super) struct EndingGroups {
    pub(super) groups: Mutex<HashSet<GroupId>>,
    /// Held during a step. Invariant: when a group is created again, no step that found it dismissed is in
    /// progress.
    pub(super) step: tokio::sync::Mutex<()>,
}

/// The domains that members use.
#[derive(Clone, Debug)]
pub struct MemberDependencies {
    /// Roles in groups.
    pub roles: Roles,
    /// The groups themselves.
    pub groups: Groups,
    /// The user accounts.
    pub users: Users,
    /// Conversation settings that apply to all users.
    pub conversations: ConversationRecords,
}

impl Members {
    /// Creates it with its own namespaces in the caches, besides the namespaces for roles.
    #[must_use]
    pub fn new(
        context: DomainContext<'_>,
        lists: MemberListPolicies,
        dependencies: MemberDependencies,
        listeners: MembershipListeners,
        rules: MemberRules,
    ) -> Self {
        let DomainContext { stores, caches, mutations, hasher } = context;
        Self {
            roles: dependencies.roles,
            lists: MemberLists::new(&stores.members, caches, lists),
            groups: dependencies.groups,
            store: Arc::clone(&stores.members),
            messages: Arc::clone(&stores.messages),
            conversations: dependencies.conversations,
            users: dependencies.users,
            mutations: mutations.clone(),
            hasher: hasher.clone(),
            attempts: Arc::new(AttemptLimiter::per_minute(rules.code_tries_per_minute)),
            rules,
            ending: Arc::default(),
            listeners,
        }
    }

    /// Candidates for a user's groups: at most `size` ids above `after`, by rising id, and whether others
    /// follow.
    pub(crate) async fn groups_after(
        &self,
        user: UserId,
        after: Option<GroupId>,
        size: usize,
    ) -> Result<(Vec<GroupId>, bool), Error> {
        let asked = MemberPageKey { least: Role::Member, after: after.map_or(0, GroupId::get), size };
        let part = self.lists.groups_of(user, asked, &Consistency::Cached).await?;
        Ok((part.items.clone(), part.more))
    }

    /// Reads many members in an existing group through the tiers: an answer for each, in their order.
    pub async fn get_many(
        &self,
        keys: &[MemberKey],
        consistency: &Consistency,
    ) -> Vec<Result<Option<Entry<Member>>, Error>> {
        let entries = self.roles.members.get_many(keys, consistency).await;
        entries.into_iter().map(|entry| entry.map_err(|error| Error::cache(KIND, &error))).collect()
    }

    /// Returns the members that these keys name, in their order. Does not check whether their groups exist.
    pub(crate) async fn get_existing(
        &self,
        keys: &[MemberKey],
        consistency: &Consistency,
    ) -> Result<Vec<Entry<Member>>, Error> {
        let found = self.get_many(keys, consistency).await;
        found.into_iter().filter_map(Result::transpose).collect()
    }

    /// Returns those users who are group members, in their order. Does not check whether the group exists.
    pub(crate) async fn users_among(
        &self,
        group: GroupId,
        users: &[UserId],
        consistency: &Consistency,
    ) -> Result<Vec<UserId>, Error> {
        let keys: Vec<MemberKey> = users.iter().map(|user| MemberKey { group, user: *user }).collect();
        let members = self.get_existing(&keys, consistency).await?;
        Ok(members.iter().map(|entry| entry.value.key.user).collect())
    }

    /// Returns the group. If it has neither members nor an owner, makes its creator the owner first.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub async fn group(&self, id: GroupId) -> Result<Arc<Group>, Error> {
        let group = self.groups.get_group(id, &Consistency::Cached).await?.value;
        if let Some(creator) = self.roles.provisional_owner(&group).await?
            && self.has_account(creator).await?
        {
            // Boxed: otherwise every call that reads a group is as large as this future.
            Box::pin(self.ensure_owner(&group, creator)).await?;
        }
        Ok(group)
    }

    /// Checks that a new group's creator exists.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(in crate::group) async fn check_creator(&self, creator: Option<UserId>) -> Result<(), Error> {
        let Some(creator) = creator else { return Ok(()) };
        let found = self.users.get(creator, &Consistency::Cached).await;
        found.map(drop).map_err(|error| error.at("creator_id"))
    }

    /// Creates a group, and makes its creator the owner. If the draft has a dismissed group's id, its members
    /// are ended and its messages hidden first. Returns the group.
    ///
    /// # Errors
    /// ALREADY_EXISTS, FAILED_PRECONDITION, INVALID_ARGUMENT, or errors of the store.
    pub(in crate::group) async fn create_group(
        &self,
        draft: GroupDraft,
        secrets: PlainSecrets,
        context: WriteContext,
    ) -> Result<Committed<Group>, Error> {
        if let Some(id) = draft.id {
            self.clear_dismissed(id, context.deadline).await?;
        }
        let written = self.groups.create_group(draft, secrets, context).await?;
        self.make_creator_owner(written.record.id).await;
        Ok(written)
    }

    /// Makes a group's creator its owner after the creation. No effect if the group was dismissed since: the
    /// request may be a late repetition. Ignores errors, and waits at most [`FOUNDING_WAIT`]: [`Self::group`]
    /// founds the group for the next caller.
    async fn make_creator_owner(&self, id: GroupId) {
        let founded = async {
            let group = self.groups.get_group(id, &Consistency::Cached).await?.value;
            // An import may name a creator who does not exist: a later account with the id must not own the
            // group.
            if let Some(creator) = self.roles.creator(&group).await?
                && self.has_account(creator).await?
            {
                Box::pin(self.ensure_owner(&group, creator)).await?;
            }
            Ok::<(), Error>(())
        };
        drop(timeout(FOUNDING_WAIT, founded).await);
    }

    /// Whether a user's account exists. A creator whose account was deleted must not become the owner again.
    async fn has_account(&self, user: UserId) -> Result<bool, Error> {
        let found = self.users.get_many(&[user], &Consistency::Cached).await.into_iter().next();
        Ok(found.transpose()?.flatten().is_some())
    }

    /// Makes a group's creator its owner, if it has none.
    ///
    /// # Errors
    /// Returns the store's errors.
    pub async fn ensure_owner(&self, group: &Group, creator: UserId) -> Result<(), Error> {
        let (this, context, group) =
            (self.clone(), self.change_context_of(group, Principal::Service), group.id);
        let deadline = Instant::now() + BACKGROUND_LIMIT;
        let work = async move {
            let write = Write::at(Timestamp::now());
            match this.change(group, MemberChange::AddFounder(creator), context, write).await {
                // Another call has founded the group.
                Err(error) if error.reason() == Reason::StateForbids => Ok(()),
                changed => changed.map(drop),
            }
        };
        self.mutations.run(deadline, work).await
    }

    /// Checks that the principal may see the group's members. A private group's members are visible to its
    /// members and to services only.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or errors of the store.
    pub(crate) async fn may_see(&self, id: GroupId, principal: Principal) -> Result<(), Error> {
        let group = self.group(id).await?;
        match group.visibility {
            Visibility::Public => Ok(()),
            Visibility::Private => self.roles.allow(&group, principal, Role::Member).await,
        }
    }

    /// Checks that the principal is a member of the group, or a service.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or errors of the store.
    pub(crate) async fn check_member(&self, id: GroupId, principal: Principal) -> Result<(), Error> {
        let group = self.group(id).await?;
        self.roles.allow(&group, principal, Role::Member).await
    }

    /// Returns a user's role in a group; `None`: not a member. Sees every acknowledged change.
    pub(crate) async fn role(&self, group: &Group, user: UserId) -> Result<Option<Role>, Error> {
        self.roles.of(group, user).await
    }

    /// Returns an existing group's roster.
    pub(crate) async fn roster(&self, group: GroupId, consistency: &Consistency) -> Result<Roster, Error> {
        self.roles.roster(group, consistency).await
    }

    /// The context for changing this group: the acting user, the limits, and whether new members may read
    /// earlier messages.
    pub(super) fn change_context_of(&self, group: &Group, principal: Principal) -> ChangeContext {
        ChangeContext { history: group.history_for_new_members, ..self.change_context(principal) }
    }

    /// Like `change_context_of`, for a change by which no user joins.
    pub(super) const fn change_context(&self, principal: Principal) -> ChangeContext {
        ChangeContext {
            by: principal.user(),
            members_max: self.rules.members_max,
            bans_max: self.rules.bans_max,
            history: false,
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
pub(super) fn store_error(error: StoreError) -> Error {
    Error::store(KIND, &error)
}
