//! What membership means: who comes in how, what is cached, what a write settles.

use std::{future::ready, num::NonZeroU32, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use kith_cache::{Consistency, Entry, ListWrite};
use kith_store::{
    Applied, Group, GroupId, JoinPolicy, Member, MemberChange, MemberChanged, MemberKey, MemberStore,
    MemberTerms, MembersChanged, Role, Roster, StoreError, Timestamp, UserId, Visibility, Write,
};
use tokio::time::{Instant, timeout};

use super::{
    MemberListPolicies, Roles,
    ending::Ending,
    lists::{Asked, MemberLists},
    membership_events::{Expected, MembershipEvent, MembershipListeners},
};
use crate::{
    domain_context::DomainContext,
    error::{Error, Reason},
    group::Groups,
    rpc::{
        call::Principal,
        request::WriteContext,
        secret::{SecretHasher, Tries},
    },
    user::Users,
    write::{
        invalidation_scope::{RecordInvalidations, write_with_invalidations},
        mutations::{Committed, Mutations},
    },
};

pub(super) const KIND: &str = "member";
/// To found a group takes one write.
pub(super) const FOUNDED_WITHIN: Duration = Duration::from_secs(10);
/// How long the answer to CreateGroup waits for that.
const CREATED_WITHIN: Duration = Duration::from_millis(500);

/// What is configured about members.
#[derive(Clone, Copy, Debug)]
pub struct MemberRules {
    /// Most members of a group.
    pub members_max: u32,
    /// Most bans of a group.
    pub bans_max: u32,
    /// How often a user may try the code of a group, in a minute.
    pub code_tries_per_minute: NonZeroU32,
}

/// The members of a deployment, through the tiers of this node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Members {
    pub(super) roles: Roles,
    pub(super) lists: MemberLists,
    pub(super) groups: Groups,
    pub(super) store: Arc<dyn MemberStore>,
    users: Users,
    pub(super) mutations: Mutations,
    hasher: SecretHasher,
    tries: Arc<Tries<MemberKey>>,
    pub(super) rules: MemberRules,
    /// Dismissed groups whose members are being ended.
    pub(super) ending: Arc<Ending>,
    /// Whoever has to know who came and went.
    pub(super) listeners: MembershipListeners,
}

/// What members are members of, and who they are.
#[derive(Clone, Debug)]
pub struct Among {
    /// Roles in groups.
    pub roles: Roles,
    /// Groups.
    pub groups: Groups,
    /// Users.
    pub users: Users,
}

/// What a write of members settles: their lists, those of the groups of each, and the roster.
pub(super) struct MemberInvalidations {
    group: GroupId,
    members: Option<ListWrite<GroupId>>,
    groups: Option<ListWrite<UserId>>,
    roster: RecordInvalidations<GroupId, Roster>,
}

impl Members {
    /// With namespaces of its own in the caches, beside those of the roles.
    #[must_use]
    pub fn new(
        context: DomainContext<'_>,
        lists: MemberListPolicies,
        among: Among,
        listeners: MembershipListeners,
        rules: MemberRules,
    ) -> Self {
        let DomainContext { stores, tiers, mutations, hasher } = context;
        Self {
            roles: among.roles,
            lists: MemberLists::new(&stores.members, tiers, lists),
            groups: among.groups,
            store: Arc::clone(&stores.members),
            users: among.users,
            mutations: mutations.clone(),
            hasher: hasher.clone(),
            tries: Arc::new(Tries::per_minute(rules.code_tries_per_minute)),
            rules,
            ending: Arc::default(),
            listeners,
        }
    }

    /// A part of the groups that a user may be in, by rising id, after this one; whether others follow.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(crate) async fn groups_after(
        &self,
        user: UserId,
        after: Option<GroupId>,
        size: usize,
    ) -> Result<(Vec<GroupId>, bool), Error> {
        let asked = Asked { least: Role::Member, after: after.map_or(0, GroupId::get), size };
        let part = self.lists.groups_of(user, asked, &Consistency::Cached).await?;
        Ok((part.ids, part.more))
    }

    /// Reads many members of a group that stands, through the tiers: an answer for each, in their order.
    pub async fn get_many(
        &self,
        keys: &[MemberKey],
        consistency: &Consistency,
    ) -> Vec<Result<Option<Entry<Member>>, Error>> {
        let entries = self.roles.members.get_many(keys, consistency).await;
        entries.into_iter().map(|entry| entry.map_err(|error| Error::cache(KIND, &error))).collect()
    }

    /// Those of these who are members of a group that stands, in their order.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(crate) async fn among(
        &self,
        keys: &[MemberKey],
        consistency: &Consistency,
    ) -> Result<Vec<Entry<Member>>, Error> {
        let found = self.get_many(keys, consistency).await;
        found.into_iter().filter_map(Result::transpose).collect()
    }

    /// Those of these users who are members of the group, if it stands, in their order.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(crate) async fn users_among(
        &self,
        group: GroupId,
        users: &[UserId],
        consistency: &Consistency,
    ) -> Result<Vec<UserId>, Error> {
        let keys: Vec<MemberKey> = users.iter().map(|user| MemberKey { group, user: *user }).collect();
        let among = self.among(&keys, consistency).await?;
        Ok(among.iter().map(|entry| entry.value.key.user).collect())
    }

    /// The group of this id, founded if it was not yet.
    ///
    /// # Errors
    /// NOT_FOUND, or what a failing store makes.
    pub async fn group(&self, id: GroupId) -> Result<Arc<Group>, Error> {
        let group = self.groups.get(id, &Consistency::Cached).await?.value;
        if let Some(creator) = self.roles.founder(&group).await?
            && self.lives(creator).await?
        {
            self.found(id, creator).await?;
        }
        Ok(group)
    }

    /// Makes the creator of a group that was created its owner. Nothing happens where it is dismissed by now: a request to
    /// create it may be sent again much later. A failure is ignored, and a store that is slow is not waited for:
    /// [`Self::group`] does the same for the next caller.
    pub(crate) async fn created(&self, id: GroupId) {
        let founded = async {
            let group = self.groups.get(id, &Consistency::Cached).await?.value;
            if let Some(creator) = self.roles.creator(&group).await? {
                self.found(id, creator).await?;
            }
            Ok::<(), Error>(())
        };
        drop(timeout(CREATED_WITHIN, founded).await);
    }

    /// Who is the last one in a group when its account ends leaves it to nobody: it is not taken in again.
    async fn lives(&self, user: UserId) -> Result<bool, Error> {
        let found = self.users.get_many(&[user], &Consistency::Cached).await.into_iter().next();
        Ok(found.transpose()?.flatten().is_some())
    }

    /// Makes the creator of a group its owner, where nobody is.
    ///
    /// # Errors
    /// What a failing store makes.
    pub async fn found(&self, group: GroupId, creator: UserId) -> Result<(), Error> {
        let this = self.clone();
        let deadline = Instant::now() + FOUNDED_WITHIN;
        let work = async move {
            let terms = this.terms(Principal::Service);
            let write = Write::at(Timestamp::now());
            match this.change(group, MemberChange::Found(creator), terms, write).await {
                // Whoever came first owns it.
                Err(error) if error.reason() == Reason::StateForbids => Ok(()),
                changed => changed.map(drop),
            }
        };
        self.mutations.run(deadline, work).await
    }

    /// Makes a change of members of a group.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION, ABORTED, INVALID_ARGUMENT, or what a failing store makes.
    pub(super) async fn set(
        &self,
        id: GroupId,
        change: MemberChange,
        terms: WriteContext,
    ) -> Result<Committed<MembersChanged>, Error> {
        let write = terms.write(&self.hasher).await?;
        let this = self.clone();
        let work = async move {
            this.group(id).await?;
            this.all_live(&change).await?;
            let by = this.terms(terms.principal);
            this.change(id, change, by, write).await
        };
        self.mutations.call(terms.deadline, Box::pin(work)).await
    }

    /// Makes a member the owner.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub(crate) async fn transfer(
        &self,
        id: GroupId,
        owner: UserId,
        terms: WriteContext,
    ) -> Result<Committed<MembersChanged>, Error> {
        self.set(id, MemberChange::Transfer(owner), terms).await
    }

    /// Lets somebody in who asks for it, as the group has it.
    ///
    /// # Errors
    /// As [`Self::set`], and RESOURCE_EXHAUSTED after too many codes.
    pub(super) async fn join(
        &self,
        key: MemberKey,
        code: &str,
        terms: WriteContext,
    ) -> Result<Committed<MembersChanged>, Error> {
        if let Principal::User(user) = terms.principal {
            if user != key.user {
                return Err(Error::not_allowed("users join for themselves"));
            }
            let group = self.group(key.group).await?;
            self.lets_in(&group, user, code).await?;
        }
        self.set(key.group, MemberChange::Join(key.user), terms).await
    }

    /// Makes sure that whoever acts may see who is in the group: of a private one its members alone.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or what a failing store makes.
    pub(crate) async fn may_see(&self, id: GroupId, principal: Principal) -> Result<(), Error> {
        let group = self.group(id).await?;
        match group.visibility {
            Visibility::Public => Ok(()),
            Visibility::Private => self.roles.allow(&group, principal, Role::Member).await,
        }
    }

    /// What is true of all members of a group that stands.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn roster(&self, group: GroupId, consistency: &Consistency) -> Result<Roster, Error> {
        let entry = self.roles.rosters.get_with(&group, consistency).await;
        let entry = entry.map_err(|error| Error::cache("roster", &error))?;
        Ok(entry.map(|entry| *entry.value).unwrap_or_default())
    }

    /// Who was changed after this, from the store; see [`MemberStore::member_changes`].
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn changes(
        &self,
        group: GroupId,
        after: MemberChanged,
        limit: usize,
    ) -> Result<Option<Vec<MemberChanged>>, Error> {
        self.store.member_changes(group, after, limit).await.map_err(store_error)
    }

    /// The store decides; what tiers hold of those named is given up around it.
    pub(super) async fn change(
        &self,
        group: GroupId,
        change: MemberChange,
        terms: MemberTerms,
        write: Write,
    ) -> Result<Committed<MembersChanged>, Error> {
        let keys: Vec<MemberKey> = self.keys(group, &change).await?;
        let expected = Expected::of(&change);
        let given_up = self.given_up(group, &change).await;
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move {
            let applied: Applied<MembersChanged> = store.change_members(group, change, terms, write).await?;
            Ok(applied.record)
        });
        let done = self.around(given_up, keys.clone(), write).await?;
        let done = self.give_up_rest(&keys, done).await?;
        self.tell(expected.with(group, &done.record.rows)).await;
        Ok(done)
    }

    /// Who owned a group was looked up before it was given away, and another one may have come between. Whom the write
    /// changed besides those of `keys` is given up too, before it is acknowledged.
    async fn give_up_rest(
        &self,
        keys: &[MemberKey],
        done: Committed<MembersChanged>,
    ) -> Result<Committed<MembersChanged>, Error> {
        let changed = done.record.rows.iter().map(|row| row.member.key);
        let rest: Vec<MemberKey> = changed.filter(|key| !keys.contains(key)).collect();
        if rest.is_empty() {
            return Ok(done);
        }
        // Without a turn at the store: the write stands, and must not be answered as one that was turned away.
        let given_up = RecordInvalidations { guard: self.roles.members.begin_write(&rest).await, keys: rest };
        write_with_invalidations(given_up, ready(Ok(done))).await.map_err(store_error)
    }

    /// Tells what became of a change, which stands. What a listener cannot do now, it does when it comes to it again.
    pub(super) async fn tell(&self, event: Option<MembershipEvent>) {
        let Some(event) = event else { return };
        if let Err(error) = self.listeners.tell(&event).await {
            tracing::warn!(%error, "something that follows from a change of members could not be done");
        }
    }

    /// Runs a write with what tiers hold of these given up around it.
    pub(super) async fn around(
        &self,
        MemberInvalidations { group, members, groups, roster }: MemberInvalidations,
        keys: Vec<MemberKey>,
        write: BoxFuture<'static, Result<MembersChanged, StoreError>>,
    ) -> Result<Committed<MembersChanged>, Error> {
        let write = Box::pin(self.mutations.write_members(&self.roles.members, group, keys, write));
        let write = Box::pin(write_with_invalidations(roster, write));
        let write = Box::pin(write_with_some_invalidations(groups, write));
        write_with_some_invalidations(members, write).await.map_err(store_error)
    }

    /// Those whom the change may change. A transfer changes whoever owns the group too.
    async fn keys(&self, group: GroupId, change: &MemberChange) -> Result<Vec<MemberKey>, Error> {
        let mut users = change.users();
        if matches!(change, MemberChange::Transfer(_)) {
            users.extend(self.roster(group, &Consistency::Strong).await?.owner);
        }
        users.sort_unstable();
        users.dedup();
        Ok(users.into_iter().map(|user| MemberKey { group, user }).collect())
    }

    pub(super) async fn given_up(&self, group: GroupId, change: &MemberChange) -> MemberInvalidations {
        let (members, groups) = match change {
            change if Expected::of(change).moves() => (true, true),
            MemberChange::SetRole(..) | MemberChange::Transfer(_) => (true, false),
            _ => (false, false),
        };
        let members = if members { Some(self.lists.members.begin_write(&[group]).await) } else { None };
        let groups = if groups { Some(self.lists.groups.begin_write(&change.users()).await) } else { None };
        let guard = self.roles.rosters.begin_write(&[group]).await;
        MemberInvalidations {
            group,
            members,
            groups,
            roster: RecordInvalidations { guard, keys: vec![group] },
        }
    }

    /// Users who do not exist are not added, made owners or banned.
    async fn all_live(&self, change: &MemberChange) -> Result<(), Error> {
        let coming = match change {
            MemberChange::Join(_)
            | MemberChange::Add(_)
            | MemberChange::Transfer(_)
            | MemberChange::Ban(..) => change.users(),
            _ => return Ok(()),
        };
        for found in self.users.get_many(&coming, &Consistency::Cached).await {
            if found?.is_none() {
                return Err(Error::not_found("user"));
            }
        }
        Ok(())
    }

    async fn lets_in(&self, group: &Group, user: UserId, code: &str) -> Result<(), Error> {
        let key = MemberKey { group: group.id, user };
        if self.roles.of(group, user).await?.is_some() {
            return Ok(());
        }
        match (group.join_policy, group.visibility) {
            (JoinPolicy::Open, Visibility::Public) => Ok(()),
            (JoinPolicy::Code, _) | (JoinPolicy::Open, Visibility::Private) => self.is_code(key, code).await,
            (JoinPolicy::Approval, _) => Err(closed("by approval: apply for it")),
            (JoinPolicy::Invite, _) => Err(closed("by invitation")),
        }
    }

    /// Makes sure that a user knows the code of a group.
    pub(super) async fn is_code(&self, key: MemberKey, code: &str) -> Result<(), Error> {
        // Counted before it is looked at: a refusal says nothing of the code.
        self.tries.count(&key)?;
        if self.groups.is_code(key.group, code).await? {
            return Ok(());
        }
        Err(Error::not_allowed("the code is not that of the group"))
    }

    pub(super) const fn terms(&self, principal: Principal) -> MemberTerms {
        MemberTerms {
            by: principal.user(),
            members_max: self.rules.members_max,
            bans_max: self.rules.bans_max,
        }
    }
}

/// As [`write_with_invalidations`], where there is something to be given up.
async fn write_with_some_invalidations<L: kith_cache::Key>(
    given_up: Option<ListWrite<L>>,
    write: impl Future<Output = Result<Committed<MembersChanged>, StoreError>> + Send,
) -> Result<Committed<MembersChanged>, StoreError> {
    match given_up {
        Some(given_up) => write_with_invalidations(given_up, write).await,
        None => write.await,
    }
}

pub(super) fn closed(how: &str) -> Error {
    Error::new(Reason::StateForbids, format!("the group is joined {how}"))
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
pub(super) fn store_error(error: StoreError) -> Error {
    Error::store(KIND, &error)
}
