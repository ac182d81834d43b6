//! What membership means: who comes in how, what is cached, what a write settles.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use kith_cache::{Consistency, Entry, ListPolicies, ListWrite};
use kith_store::{
    Applied, Group, GroupId, JoinPolicy, Member, MemberChange, MemberChanged, MemberKey, MemberStore,
    MemberTerms, MembersChanged, Role, Roster, StoreError, Stores, Timestamp, UserId, Visibility, Write,
};
use tokio::time::Instant;

use super::{
    Roles,
    lists::{Asked, MemberLists},
};
use crate::{
    beside::{Records, beside},
    call::Acting,
    error::{Error, Reason},
    group::Groups,
    mutation::{Mutations, Written},
    presence::Moves,
    request::Terms,
    secret::{SecretHasher, Tries},
    tiers::Tiers,
    user::Users,
};

pub(super) const KIND: &str = "member";
/// To found a group takes one write.
const FOUNDED_WITHIN: Duration = Duration::from_secs(10);
/// Groups that a deleted user leaves in one step.
const DEPARTED_AT_ONCE: usize = 20;
/// Members of a dismissed group that end in one step.
const ENDED_AT_ONCE: usize = 100;

/// What is configured about members.
#[derive(Clone, Copy, Debug)]
pub struct MemberRules {
    /// Most members of a group.
    pub members_max: u32,
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
    mutations: Mutations,
    hasher: SecretHasher,
    tries: Arc<Tries<MemberKey>>,
    pub(super) rules: MemberRules,
    /// Whoever wants to know of joins and leaves.
    moves: Option<Moves>,
}

/// What a write of members settles: their lists, those of the groups of each, and the roster.
struct GivenUp {
    members: Option<ListWrite<GroupId>>,
    groups: Option<ListWrite<UserId>>,
    roster: Records<GroupId, Roster>,
}

impl Members {
    /// Over `stores`, with namespaces of its own in the tiers beside those of `roles`.
    #[must_use]
    pub fn new(
        stores: &Stores,
        tiers: &Tiers,
        lists: (ListPolicies<UserId>, ListPolicies<GroupId>),
        (roles, groups, users): (Roles, Groups, Users),
        (mutations, hasher): (Mutations, SecretHasher),
        rules: MemberRules,
    ) -> Self {
        Self {
            roles,
            lists: MemberLists::new(&stores.members, tiers, lists),
            groups,
            store: Arc::clone(&stores.members),
            users,
            mutations,
            hasher,
            tries: Arc::new(Tries::per_minute(rules.code_tries_per_minute)),
            rules,
            moves: None,
        }
    }

    /// The same, which tells who joins and leaves.
    #[must_use]
    pub(crate) fn telling(self, moves: Moves) -> Self {
        Self { moves: Some(moves), ..self }
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

    /// The group of this id, founded if it was not yet.
    ///
    /// # Errors
    /// NOT_FOUND, or what a failing store makes.
    pub async fn group(&self, id: GroupId) -> Result<Arc<Group>, Error> {
        let group = self.groups.get(id, &Consistency::Cached).await?.value;
        if let Some(creator) = group.creator
            && !self.roles.was_founded(id).await?
        {
            self.found(id, creator).await?;
        }
        Ok(group)
    }

    /// Makes the creator of a group its owner, where nobody was ever in it.
    ///
    /// # Errors
    /// What a failing store makes.
    pub async fn found(&self, group: GroupId, creator: UserId) -> Result<(), Error> {
        let this = self.clone();
        let deadline = Instant::now() + FOUNDED_WITHIN;
        let work = async move {
            let terms = this.terms(Acting::Service);
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
        terms: Terms,
    ) -> Result<Written<MembersChanged>, Error> {
        let write = terms.write(&self.hasher).await?;
        let this = self.clone();
        let work = async move {
            this.group(id).await?;
            this.all_live(&change).await?;
            let by = this.terms(terms.acting);
            this.change(id, change, by, write).await
        };
        self.mutations.run(terms.deadline, Box::pin(work)).await
    }

    /// Makes a member the owner.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub(crate) async fn transfer(
        &self,
        id: GroupId,
        owner: UserId,
        terms: Terms,
    ) -> Result<Written<MembersChanged>, Error> {
        self.set(id, MemberChange::Transfer(owner), terms).await
    }

    /// Takes a user whose account has ended out of some of its groups. False: it was in none. A group that it owned goes to an
    /// admin, else to a member, else to nobody.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(crate) async fn depart_some(&self, user: UserId) -> Result<bool, Error> {
        let groups = self.store.memberships(user, None, DEPARTED_AT_ONCE).await.map_err(store_error)?;
        for group in &groups {
            let (this, group) = (self.clone(), *group);
            let work = async move { this.depart(group, user).await };
            self.mutations.run(Instant::now() + FOUNDED_WITHIN, Box::pin(work)).await?;
        }
        Ok(!groups.is_empty())
    }

    async fn depart(&self, group: GroupId, user: UserId) -> Result<(), Error> {
        let terms = self.terms(Acting::Service);
        let write = || Write::at(Timestamp::now());
        if self.roster(group, &Consistency::Strong).await?.owner == Some(user)
            && let Some(heir) = self.heir(group, user).await?
        {
            match self.change(group, MemberChange::Transfer(heir), terms, write()).await {
                // It went meanwhile: nobody owns the group then.
                Err(error) if error.reason() == Reason::NotFound => {}
                changed => drop(changed?),
            }
        }
        self.change(group, MemberChange::Depart(user), terms, write()).await.map(drop)
    }

    /// Who owns the group after this one: of admins, else of members, that of the lowest id.
    async fn heir(&self, group: GroupId, user: UserId) -> Result<Option<UserId>, Error> {
        for least in [Role::Admin, Role::Member] {
            let some = self.store.member_list(group, least, None, 2).await.map_err(store_error)?;
            let others = some.iter().map(|member| member.key.user).filter(|other| *other != user);
            if let Some(heir) = others.min() {
                return Ok(Some(heir));
            }
        }
        Ok(None)
    }

    /// Begins to end the members of a group that is dismissed, whom nobody is told of any more: their own lists go with
    /// them. Goes on beside.
    pub(crate) fn end(&self, group: GroupId) {
        let this = self.clone();
        let work = async move { this.end_all(group).await };
        let mutations = self.mutations.clone();
        let deadline = Instant::now() + FOUNDED_WITHIN;
        tokio::spawn(async move { mutations.run(deadline, work).await });
    }

    /// Lets somebody in who asks for it, as the group has it.
    ///
    /// # Errors
    /// As [`Self::set`], and RESOURCE_EXHAUSTED after too many codes.
    pub(super) async fn join(
        &self,
        key: MemberKey,
        code: &str,
        terms: Terms,
    ) -> Result<Written<MembersChanged>, Error> {
        if let Acting::User(user) = terms.acting {
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
    pub(crate) async fn may_see(&self, id: GroupId, acting: Acting) -> Result<(), Error> {
        let group = self.group(id).await?;
        match group.visibility {
            Visibility::Public => Ok(()),
            Visibility::Private => self.roles.allow(&group, acting, Role::Member).await,
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
    async fn change(
        &self,
        group: GroupId,
        change: MemberChange,
        terms: MemberTerms,
        write: Write,
    ) -> Result<Written<MembersChanged>, Error> {
        let keys: Vec<MemberKey> = self.keys(group, &change).await?;
        let moved = self.moved(&change);
        let given_up = self.given_up(group, &change).await;
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move {
            let applied: Applied<MembersChanged> = store.change_members(group, change, terms, write).await?;
            Ok(applied.record)
        });
        let done = self.around(given_up, keys, write).await?;
        self.tell(group, moved).await;
        Ok(done)
    }

    /// Those whom the change lets come or go.
    fn moved(&self, change: &MemberChange) -> Vec<UserId> {
        let told = self.moves.is_some() && comes_or_goes(change);
        if told { change.users() } else { Vec::new() }
    }

    /// Tells that they came or went, which stands.
    async fn tell(&self, group: GroupId, moved: Vec<UserId>) {
        if let Some(moves) = self.moves.as_ref().filter(|_| !moved.is_empty()) {
            moves.tell(group, moved).await;
        }
    }

    /// A step at a time: what tiers hold of those who are ended by a step is given up around it.
    async fn end_all(&self, group: GroupId) -> Result<(), Error> {
        loop {
            let some = self.store.member_list(group, Role::Member, None, ENDED_AT_ONCE).await;
            let users: Vec<UserId> =
                some.map_err(store_error)?.iter().map(|member| member.key.user).collect();
            if users.is_empty() {
                return Ok(());
            }
            let keys = users.iter().map(|user| MemberKey { group, user: *user }).collect();
            let change = MemberChange::Remove(users);
            let (given_up, moved) = (self.given_up(group, &change).await, self.moved(&change));
            let store = Arc::clone(&self.store);
            let write = Box::pin(async move {
                store.end_members(group, ENDED_AT_ONCE, Timestamp::now()).await?;
                Ok(MembersChanged { roster: Roster::default(), rows: Vec::new() })
            });
            self.around(given_up, keys, write).await?;
            self.tell(group, moved).await;
        }
    }

    /// Runs a write with what tiers hold of these given up around it.
    async fn around(
        &self,
        GivenUp { members, groups, roster }: GivenUp,
        keys: Vec<MemberKey>,
        write: BoxFuture<'static, Result<MembersChanged, StoreError>>,
    ) -> Result<Written<MembersChanged>, Error> {
        let write = Box::pin(self.mutations.write_all(&self.roles.members, keys, write));
        let write = Box::pin(beside(roster, write));
        let write = Box::pin(beside_some(groups, write));
        beside_some(members, write).await.map_err(store_error)
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

    async fn given_up(&self, group: GroupId, change: &MemberChange) -> GivenUp {
        let (members, groups) = match change {
            change if comes_or_goes(change) => (true, true),
            MemberChange::SetRole(..) | MemberChange::Transfer(_) => (true, false),
            _ => (false, false),
        };
        let members = if members { Some(self.lists.members.begin_write(&[group]).await) } else { None };
        let groups = if groups { Some(self.lists.groups.begin_write(&change.users()).await) } else { None };
        let guard = self.roles.rosters.begin_write(&[group]).await;
        GivenUp { members, groups, roster: Records { guard, keys: vec![group] } }
    }

    /// Nobody comes in, or gets a role, who does not live.
    async fn all_live(&self, change: &MemberChange) -> Result<(), Error> {
        let coming = match change {
            MemberChange::Join(_) | MemberChange::Add(_) | MemberChange::Transfer(_) => change.users(),
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

    const fn terms(&self, acting: Acting) -> MemberTerms {
        let by = match acting {
            Acting::Service => None,
            Acting::User(user) => Some(user),
        };
        MemberTerms { by, members_max: self.rules.members_max }
    }
}

/// Whether it changes who is in the group.
const fn comes_or_goes(change: &MemberChange) -> bool {
    match change {
        MemberChange::Found(_)
        | MemberChange::Join(_)
        | MemberChange::Add(_)
        | MemberChange::Remove(_)
        | MemberChange::Leave(_)
        | MemberChange::Depart(_) => true,
        MemberChange::SetRole(..)
        | MemberChange::Transfer(_)
        | MemberChange::Mute(..)
        | MemberChange::MuteAll(_)
        | MemberChange::Remark(..) => false,
    }
}

/// As [`beside`], where there is something to be given up.
async fn beside_some<L: kith_cache::Key>(
    given_up: Option<ListWrite<L>>,
    write: impl Future<Output = Result<Written<MembersChanged>, StoreError>> + Send,
) -> Result<Written<MembersChanged>, StoreError> {
    match given_up {
        Some(given_up) => beside(given_up, write).await,
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
