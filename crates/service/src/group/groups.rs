//! Group rules: rights, caching, and invite codes.

use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc};

use kith_cache::{Consistency, Entry, ListPolicies, Policy, TieredCache};
use kith_store::{
    Group, GroupId, GroupPatch, GroupStore, IdKind, JoinPolicy, Role, SecretChange, SecretOwner, SecretStore,
    StoreError, Stored, Version, Visibility, Write,
};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::{
    GroupKeyword,
    convert::{GroupDraft, RESERVED_PARAM as CODE},
    listing::{buckets, buckets_of_new},
    loader::GroupLoader,
    renaming::GroupListeners,
    search::GroupSearch,
};
use crate::{
    domain_context::DomainContext,
    error::{Error, Reason},
    group::member::Roles,
    rpc::{
        call::Principal,
        ids,
        request::WriteContext,
        secret::{AttemptLimiter, InviteCodes, PlainSecrets, SecretHasher},
        versions::{deleted, put},
    },
    write::{
        ids::Ids,
        mutations::{Committed, Mutations, RecordWrite},
        record_codec::RecordCodec,
    },
};

const KIND: &str = "group";
/// How many id blocks may be occupied by callers' own ids before a creation fails.
const ID_TRIES: usize = 16;
/// How often a change that adds or removes the invite code is attempted, if other writes come in between.
const CODE_TRIES: usize = 8;

/// A deployment's groups, through this node's tiers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Groups {
    pub(super) cache: TieredCache<GroupId, Group>,
    pub(super) searches: GroupSearch,
    store: Arc<dyn GroupStore>,
    secrets: Arc<dyn SecretStore>,
    pub(super) mutations: Mutations,
    hasher: SecretHasher,
    codes: InviteCodes,
    roles: Roles,
    pub(super) listeners: GroupListeners,
    ids: Arc<Ids>,
    attempts: Arc<AttemptLimiter<(GroupId, String)>>,
    pub(super) secret_params: Arc<BTreeSet<String>>,
    pub(super) user_params: Arc<BTreeSet<String>>,
}

/// The configuration for groups.
#[derive(Clone, Debug)]
pub struct GroupRules {
    /// Parameters that are secrets, like those for users.
    pub secret_params: BTreeSet<String>,
    /// Parameters that users who call by a token may set, and see. All others are for services.
    pub user_params: BTreeSet<String>,
    /// Attempts to guess a secret, within a minute and on one node.
    pub tries_per_minute: NonZeroU32,
    /// Ids reserved at a time.
    pub id_block: u32,
}

/// Policies for group namespaces.
#[derive(Clone, Debug)]
pub struct GroupPolicies {
    /// The policy for the records.
    pub records: Policy<Group>,
    /// The policy for id pages that searches find.
    pub searches: ListPolicies<GroupId>,
}

/// A search's result.
#[derive(Clone, Debug)]
pub struct FoundGroups {
    /// Public groups, by ascending id. May be fewer than requested, or none, if some are no longer found.
    pub groups: Vec<Arc<Group>>,
    /// The id above which the search continues; `None` at its end.
    pub next: Option<GroupId>,
}

impl Groups {
    /// Creates it with its own namespaces in the caches. `listeners` are notified about changes.
    #[must_use]
    pub fn new(
        context: DomainContext<'_>,
        policies: GroupPolicies,
        roles: Roles,
        codes: InviteCodes,
        rules: GroupRules,
        listeners: GroupListeners,
    ) -> Self {
        let DomainContext { stores, caches, mutations, hasher } = context;
        let GroupRules { mut secret_params, user_params, tries_per_minute, id_block } = rules;
        secret_params.remove(CODE);
        Self {
            cache: caches.namespace(policies.records, Arc::new(GroupLoader::new(stores)), RecordCodec::GROUP),
            searches: GroupSearch::new(&stores.groups, caches, policies.searches),
            store: Arc::clone(&stores.groups),
            secrets: Arc::clone(&stores.secrets),
            mutations: mutations.clone(),
            hasher: hasher.clone(),
            codes,
            roles,
            listeners,
            ids: Arc::new(Ids::new(Arc::clone(&stores.node), IdKind::Group, id_block)),
            attempts: Arc::new(AttemptLimiter::per_minute(tries_per_minute)),
            secret_params: Arc::new(secret_params),
            user_params: Arc::new(user_params),
        }
    }

    /// Reads one group through the tiers.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub async fn get_group(&self, id: GroupId, consistency: &Consistency) -> Result<Entry<Group>, Error> {
        let entry =
            self.cache.get_with(&id, consistency).await.map_err(|error| Error::cache(KIND, &error))?;
        entry.ok_or_else(|| Error::not_found(KIND))
    }

    /// Reads many groups through the tiers: an answer for each id, in their order; `None` if the group does
    /// not exist.
    pub async fn get_many(
        &self,
        ids: &[GroupId],
        consistency: &Consistency,
    ) -> Vec<Result<Option<Entry<Group>>, Error>> {
        let entries = self.cache.get_many(ids, consistency).await;
        entries.into_iter().map(|entry| entry.map_err(|error| Error::cache(KIND, &error))).collect()
    }

    /// Finds public groups among up to `size` candidates. Id pages and records come through the tiers, with
    /// the requested consistency.
    ///
    /// # Errors
    /// Returns the store's errors.
    pub async fn search_groups(
        &self,
        keyword: &GroupKeyword,
        after: Option<GroupId>,
        size: usize,
        consistency: &Consistency,
    ) -> Result<FoundGroups, Error> {
        let page = self.searches.page(keyword, after, size, consistency).await;
        let page = page.map_err(|error| Error::cache(KIND, &error))?;
        let mut groups = Vec::with_capacity(page.items.len());
        for record in self.get_many(&page.items, consistency).await {
            groups.extend(record?.map(|entry| entry.value).filter(|group| keyword.finds(group)));
        }
        Ok(FoundGroups { groups, next: page.items.last().filter(|_| page.more).copied() })
    }

    /// Reads a page of all groups from the store, by ascending id.
    ///
    /// # Errors
    /// Returns the store's errors.
    pub async fn scan(&self, after: Option<GroupId>, limit: usize) -> Result<Vec<Group>, Error> {
        self.store.scan_groups(after, limit).await.map_err(store_error)
    }

    /// Creates a group; an id is allocated if the draft has none.
    ///
    /// # Errors
    /// ALREADY_EXISTS, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn create_group(
        &self,
        draft: GroupDraft,
        secrets: PlainSecrets,
        context: WriteContext,
    ) -> Result<Committed<Group>, Error> {
        let request = context.seed.as_ref().map(|seed| seed.id().to_owned());
        let write = context.write_with(&secrets, &self.hasher).await?;
        let secrets = self.hasher.hash_all(secrets).await?;
        let this = self.clone();
        let work = async move { this.insert(draft, secrets, request.as_deref(), write).await };
        self.mutations.call(context.deadline, work).await
    }

    /// Changes a group. If the change makes an invite code necessary, or unnecessary, the code is created or
    /// removed in the same write.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, ABORTED, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn update_group(
        &self,
        id: GroupId,
        patch: GroupPatch,
        secrets: PlainSecrets,
        context: WriteContext,
    ) -> Result<Committed<Group>, Error> {
        let write = context.write_with(&secrets, &self.hasher).await?;
        let patch = GroupPatch { secrets: self.hasher.hash_all(secrets).await?, ..patch };
        let this = self.clone();
        let work = async move {
            let before = this.before_change(id, &patch).await;
            let written = this.change_for(id, patch, write, context.principal).await?;
            this.notify_changed(before, &written.record).await;
            Ok(written)
        };
        self.mutations.call(context.deadline, Box::pin(work)).await
    }

    /// Changes a group. The rights were checked.
    async fn change_for(
        &self,
        id: GroupId,
        patch: GroupPatch,
        write: Write,
        principal: Principal,
    ) -> Result<Committed<Group>, Error> {
        if patch.visibility.is_some() || patch.join_policy.is_some() {
            return self.change_with_code(id, patch, write, principal).await;
        }
        self.allow(id, principal, Role::Admin).await?;
        let before = self.peek(id);
        self.change(id, patch, write, before.as_deref()).await.map_err(store_error)
    }

    /// Dismisses a group. Returns the dismissal's version.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, ABORTED, INVALID_ARGUMENT, or errors of the store.
    pub(crate) async fn dismiss_group(
        &self,
        id: GroupId,
        context: WriteContext,
    ) -> Result<Committed<Version>, Error> {
        let write = context.write(&self.hasher).await?;
        let this = self.clone();
        let work = async move {
            this.allow(id, context.principal, Role::Owner).await?;
            let store = Arc::clone(&this.store);
            let write = Box::pin(async move { store.dismiss_group(id, write).await });
            let job = RecordWrite { key: id, write, change: deleted };
            let buckets = buckets(&GroupPatch::default(), this.peek(id).as_deref());
            this.write_listed(buckets, job).await.map_err(store_error)
        };
        self.mutations.call(context.deadline, work).await
    }

    /// Whether the store has a dismissed group with this id.
    pub(crate) async fn was_dismissed(&self, id: GroupId) -> Result<bool, Error> {
        Ok(matches!(self.store.group(id).await.map_err(store_error)?, Stored::Deleted(_)))
    }

    /// Whether this is the group's secret. A group without it, or no group at all, answers false. For the
    /// owner, admins and services.
    ///
    /// # Errors
    /// PERMISSION_DENIED, RESOURCE_EXHAUSTED after too many attempts, or errors of the store.
    pub(super) async fn verify_secret(
        &self,
        id: GroupId,
        name: &str,
        secret: Zeroizing<String>,
        principal: Principal,
    ) -> Result<bool, Error> {
        if !self.secret_params.contains(name) {
            return Err(Error::invalid("name", "must be the name of a secret parameter"));
        }
        self.allow(id, principal, Role::Admin).await?;
        self.attempts.count(&(id, name.to_owned()))?;
        let stored = self.secrets.secret(SecretOwner::Group(id), name).await.map_err(store_error)?;
        self.hasher.verify(stored, secret).await
    }

    /// Reads the invite code from the store.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION if the group has none, or errors of the store.
    pub async fn get_invite_code(&self, id: GroupId, principal: Principal) -> Result<String, Error> {
        let group = self.read(id).await?;
        self.roles.allow(&group, principal, Role::Admin).await?;
        match self.secrets.secret(SecretOwner::Group(id), CODE).await.map_err(store_error)? {
            Some(sealed) => self.codes.open(id, &sealed),
            None => Err(no_code()),
        }
    }

    /// Whether this is the invite code, read from the store and compared in constant time. Always false for a
    /// group without a code.
    pub(crate) async fn is_code(&self, id: GroupId, code: &str) -> Result<bool, Error> {
        let sealed = self.secrets.secret(SecretOwner::Group(id), CODE).await.map_err(store_error)?;
        let Some(sealed) = sealed else { return Ok(false) };
        Ok(self.codes.open(id, &sealed)?.as_bytes().ct_eq(code.as_bytes()).into())
    }

    /// Replaces the invite code. A repeated request gets the same code again.
    ///
    /// # Errors
    /// The errors of [`Self::get_invite_code`], and ABORTED if the group keeps changing.
    pub(super) async fn rotate_invite_code(
        &self,
        id: GroupId,
        context: WriteContext,
    ) -> Result<(String, Committed<Group>), Error> {
        let request = context.seed.as_ref().map(|seed| seed.id().to_owned());
        let write = context.write(&self.hasher).await?;
        let code = self.codes.generate(id, request.as_deref());
        let sealed = self.codes.seal(id, &code)?;
        let this = self.clone();
        let work = async move {
            for _ in 0..CODE_TRIES {
                let Some(group) = this.read_for(id, &write).await? else {
                    return this.change(id, GroupPatch::default(), write, None).await.map_err(store_error);
                };
                this.roles.allow(&group, context.principal, Role::Admin).await?;
                if !needs_code(group.visibility, group.join_policy) {
                    return Err(no_code());
                }
                let secrets = SecretChange::from([(CODE.to_owned(), Some(sealed.clone()))]);
                let patch = GroupPatch { secrets, ..GroupPatch::default() };
                let write = Write { expected: Some(group.version), ..write.clone() };
                match this.change(id, patch, write, Some(&group)).await {
                    Err(StoreError::Conflict { .. }) => {}
                    written => return written.map_err(store_error),
                }
            }
            Err(Error::new(Reason::VersionConflict, "the group changes too often"))
        };
        let written = self.mutations.call(context.deadline, work).await?;
        Ok((code.as_str().to_owned(), written))
    }

    async fn insert(
        &self,
        draft: GroupDraft,
        secrets: SecretChange,
        request: Option<&str>,
        write: Write,
    ) -> Result<Committed<Group>, Error> {
        for _ in 0..ID_TRIES {
            let id = match draft.id {
                Some(id) => id,
                None => self.allocate().await?,
            };
            let mut secrets = secrets.clone();
            if needs_code(draft.visibility, draft.join_policy) {
                let code = self.codes.generate(id, request);
                secrets.insert(CODE.to_owned(), Some(self.codes.seal(id, &code)?));
            }
            let (store, write) = (Arc::clone(&self.store), write.clone());
            let group = draft.clone().with(id, secrets);
            let buckets = buckets_of_new(&group);
            let write = Box::pin(async move { store.create_group(group, write).await });
            let job = RecordWrite { key: id, write, change: put };
            match self.write_listed(buckets, job).await {
                Err(StoreError::IdTaken) if draft.id.is_none() => self.ids.pass_over(id.get()).await,
                written => return written.map_err(store_error),
            }
        }
        Err(Error::new(Reason::Internal, "no free id was found"))
    }

    /// Reads whether the group has a code, and writes on the condition that this still holds.
    async fn change_with_code(
        &self,
        id: GroupId,
        patch: GroupPatch,
        write: Write,
        principal: Principal,
    ) -> Result<Committed<Group>, Error> {
        for _ in 0..CODE_TRIES {
            let Some(group) = self.read_for(id, &write).await? else {
                return self.change(id, patch, write, None).await.map_err(store_error);
            };
            self.roles.allow(&group, principal, Role::Admin).await?;
            let mut patch = patch.clone();
            let code = self.code_change(&group, &patch)?;
            patch.secrets.extend(code);
            let bound = Write { expected: write.expected.or(Some(group.version)), ..write.clone() };
            match self.change(id, patch, bound, Some(&group)).await {
                Err(StoreError::Conflict { .. }) if write.expected.is_none() => {}
                written => return written.map_err(store_error),
            }
        }
        Err(Error::new(Reason::VersionConflict, "the group changes too often"))
    }

    fn code_change(&self, group: &Group, patch: &GroupPatch) -> Result<SecretChange, Error> {
        let before = needs_code(group.visibility, group.join_policy);
        let visibility = patch.visibility.unwrap_or(group.visibility);
        let after = needs_code(visibility, patch.join_policy.unwrap_or(group.join_policy));
        let change = match (before, after) {
            (false, true) => Some(Some(self.codes.seal(group.id, &self.codes.generate(group.id, None))?)),
            (true, false) => Some(None),
            (true, true) | (false, false) => None,
        };
        Ok(change.map(|change| (CODE.to_owned(), change)).into_iter().collect())
    }

    /// Writes a change. If `before` differs from the group that the write finds, the change itself has the
    /// words under which the group is listed: see [`buckets`].
    async fn change(
        &self,
        id: GroupId,
        patch: GroupPatch,
        write: Write,
        before: Option<&Group>,
    ) -> Result<Committed<Group>, StoreError> {
        let relists = patch.name.is_some() || patch.tags.is_some() || patch.visibility.is_some();
        let buckets = if relists { buckets(&patch, before) } else { Vec::new() };
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move { store.update_group(id, patch, write).await });
        let job = RecordWrite { key: id, write, change: put };
        self.write_listed(buckets, job).await
    }

    /// Roles are strict, so a cached copy is sufficient. A cached group is sufficient, too: only its creator
    /// is used, which never changes while the group exists.
    async fn allow(&self, id: GroupId, principal: Principal, least: Role) -> Result<(), Error> {
        if principal == Principal::Service {
            return Ok(());
        }
        let group = self.get_group(id, &Consistency::Cached).await?;
        self.roles.allow(&group.value, principal, least).await
    }

    async fn read(&self, id: GroupId) -> Result<Group, Error> {
        match self.store.group(id).await.map_err(store_error)? {
            Stored::Live(group) => Ok(Arc::unwrap_or_clone(group)),
            Stored::Deleted(_) | Stored::Never => Err(Error::not_found(KIND)),
        }
    }

    /// Like [`Self::read`], but returns `None` if the group does not exist and the write has a request id:
    /// the store may know the answer to an earlier attempt.
    async fn read_for(&self, id: GroupId, write: &Write) -> Result<Option<Group>, Error> {
        match self.read(id).await {
            Ok(group) => Ok(Some(group)),
            Err(gone) if gone.reason() == Reason::NotFound && write.request.is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn allocate(&self) -> Result<GroupId, Error> {
        let id = self.ids.next().await.map_err(store_error)?;
        ids::group(id)
    }
}

fn needs_code(visibility: Visibility, join_policy: JoinPolicy) -> bool {
    visibility == Visibility::Private || join_policy == JoinPolicy::Code
}

fn no_code() -> Error {
    Error::new(Reason::StateForbids, "the group has no invite code: it is public and not joined by code")
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn store_error(error: StoreError) -> Error {
    Error::store(KIND, &error)
}
