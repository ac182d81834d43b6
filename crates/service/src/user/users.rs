//! User rules: names, caching, and invalidation by writes.

use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc, time::Duration};

use kith_cache::{Consistency, Entry, Policy, TieredCache};
use kith_store::{
    IdKind, Keyword, SecretChange, SecretOwner, SecretStore, StoreError, Timestamp, User, UserAccess, UserId,
    UserName, UserPatch, UserStore, Version, Write,
};
use zeroize::Zeroizing;

use super::{
    access::Accesses,
    convert::UserDraft,
    deletion::Deletions,
    loader::UserLoader,
    profile_listener::{LateListener, ProfileListener},
};
use crate::{
    domain_context::DomainContext,
    error::{Error, Reason},
    rpc::{
        ids,
        request::WriteContext,
        secret::{AttemptLimiter, PlainSecrets, SecretHasher},
        versions::{deleted, put},
    },
    write::{
        ids::Ids,
        mutations::{Committed, Mutations, RecordWrite},
        record_codec::RecordCodec,
    },
};

const KIND: &str = "user";
/// How many id blocks may be occupied by callers' own ids before a creation fails.
const ID_TRIES: usize = 16;

/// The largest difference between two nodes' clocks, for decisions by an account's creation time.
const CLOCKS_APART_MS: i64 = 30_000;

/// The user configuration.
#[derive(Clone, Debug)]
pub struct UserRules {
    /// Names that no user may have, nor names that look like them.
    pub reserved_names: Vec<String>,
    /// How long a deleted user's name is reserved.
    pub name_kept: Duration,
    /// Parameters that are secrets.
    pub secret_params: BTreeSet<String>,
    /// Parameters that users who themselves call may set and see.
    pub user_params: BTreeSet<String>,
    /// Attempts to guess a secret, within a minute and on one node.
    pub tries_per_minute: NonZeroU32,
    /// Ids reserved at a time.
    pub id_block: u32,
}

/// The policies for user namespaces.
#[derive(Clone, Debug)]
pub struct UserPolicies {
    /// The policy for the records.
    pub users: Policy<User>,
    /// The policy for what lets users in: it must be strict.
    pub access: Policy<UserAccess>,
}

/// A deployment's users, through this node's tiers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Users {
    cache: TieredCache<UserId, User>,
    accesses: Accesses,
    store: Arc<dyn UserStore>,
    secrets: Arc<dyn SecretStore>,
    deletions: Deletions,
    profiles: LateListener,
    mutations: Mutations,
    hasher: SecretHasher,
    ids: Arc<Ids>,
    attempts: Arc<AttemptLimiter<(UserId, String)>>,
    reserved: Arc<BTreeSet<String>>,
    pub(super) rules: Arc<UserRules>,
}

impl Users {
    /// Creates it with its own namespaces in the caches.
    #[must_use]
    pub fn new(
        context: DomainContext<'_>,
        policies: UserPolicies,
        deletions: Deletions,
        rules: UserRules,
    ) -> Self {
        let DomainContext { stores, caches, mutations, hasher } = context;
        let cache = caches.namespace(policies.users, Arc::new(UserLoader::new(stores)), RecordCodec::USER);
        let reserved = rules.reserved_names.iter().map(|name| kith_store::skeleton(name)).collect();
        Self {
            accesses: Accesses::new(context, policies.access, cache.clone()),
            cache,
            store: Arc::clone(&stores.users),
            secrets: Arc::clone(&stores.secrets),
            deletions,
            profiles: LateListener::default(),
            mutations: mutations.clone(),
            hasher: hasher.clone(),
            ids: Arc::new(Ids::new(Arc::clone(&stores.node), IdKind::User, rules.id_block)),
            attempts: Arc::new(AttemptLimiter::per_minute(rules.tries_per_minute)),
            reserved: Arc::new(reserved),
            rules: Arc::new(rules),
        }
    }

    /// Notifies `listener` about changed profiles from now on. A second call changes nothing.
    pub fn notify_of_profiles(&self, listener: Arc<dyn ProfileListener>) {
        self.profiles.set(listener);
    }

    /// Whether users are let in.
    #[must_use]
    pub const fn accesses(&self) -> &Accesses {
        &self.accesses
    }

    /// Reads one user through the tiers.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub async fn get(&self, id: UserId, consistency: &Consistency) -> Result<Entry<User>, Error> {
        let entry =
            self.cache.get_with(&id, consistency).await.map_err(|error| Error::cache(KIND, &error))?;
        entry.ok_or_else(|| Error::not_found(KIND))
    }

    /// Reads many users through the tiers: an answer for each id, in their order; `None` if the user does not
    /// exist.
    pub async fn get_many(
        &self,
        ids: &[UserId],
        consistency: &Consistency,
    ) -> Vec<Result<Option<Entry<User>>, Error>> {
        let entries = self.cache.get_many(ids, consistency).await;
        entries.into_iter().map(|entry| entry.map_err(|error| Error::cache(KIND, &error))).collect()
    }

    /// When the account that has this id now was created; `None`: no user has it.
    pub(crate) async fn created(
        &self,
        id: UserId,
        consistency: &Consistency,
    ) -> Result<Option<Timestamp>, Error> {
        match self.get(id, consistency).await {
            Ok(entry) => Ok(Some(entry.value.created)),
            Err(error) if error.reason() == Reason::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the user with this name from the store.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub async fn find_user_by_name(&self, name: &UserName) -> Result<User, Error> {
        let user = self.store.user_by_name(name).await.map_err(|error| Error::store(KIND, &error))?;
        user.ok_or_else(|| Error::not_found(KIND))
    }

    /// Reads a page of users that match a keyword from the store, by ascending id.
    ///
    /// # Errors
    /// Returns the store's errors.
    pub async fn search_users(
        &self,
        keyword: &Keyword,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<User>, Error> {
        self.store.search_users(keyword, after, limit).await.map_err(|error| Error::store(KIND, &error))
    }

    /// Reads a page of all users from the store, by ascending id.
    ///
    /// # Errors
    /// Returns the store's errors.
    pub async fn export_users(&self, after: Option<UserId>, limit: usize) -> Result<Vec<User>, Error> {
        self.store.scan_users(after, limit).await.map_err(|error| Error::store(KIND, &error))
    }

    /// Creates a user; an id is allocated if the draft has none.
    ///
    /// # Errors
    /// ALREADY_EXISTS, FAILED_PRECONDITION, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn create_user(
        &self,
        draft: UserDraft,
        secrets: PlainSecrets,
        context: WriteContext,
    ) -> Result<Committed<User>, Error> {
        self.check_name(&draft.user_name)?;
        let write = context.write_with(&secrets, &self.hasher).await?;
        let secrets = self.hasher.hash_all(secrets).await?;
        let this = self.clone();
        self.mutations.call(context.deadline, async move { this.insert(draft, secrets, write).await }).await
    }

    /// Changes a user.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND, ABORTED, ALREADY_EXISTS, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn update_user(
        &self,
        id: UserId,
        patch: UserPatch,
        secrets: PlainSecrets,
        context: WriteContext,
    ) -> Result<Committed<User>, Error> {
        if let Some(name) = &patch.user_name {
            self.check_name(name)?;
        }
        let write = context.write_with(&secrets, &self.hasher).await?;
        let patch = UserPatch { secrets: self.hasher.hash_all(secrets).await?, ..patch };
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move { store.update_user(id, patch, write).await });
        let write = RecordWrite { key: id, write, change: put };
        let updated = self.mutations.write_record(&self.cache, context.deadline, write).await?;
        self.profiles.profile_changed(id);
        Ok(updated)
    }

    /// Deletes a user. Returns the deletion's version. Its data is removed soon after, also if this node
    /// crashes; until then its id is held.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND, ABORTED, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn delete_user(
        &self,
        id: UserId,
        context: WriteContext,
    ) -> Result<Committed<Version>, Error> {
        let write = context.write(&self.hasher).await?;
        let this = self.clone();
        let work = async move { this.end(id, write).await.map_err(|error| Error::store(KIND, &error)) };
        self.mutations.call(context.deadline, work).await
    }

    /// Notes the deletion before it is written, so that the user's data is removed also if this node dies.
    async fn end(&self, id: UserId, write: Write) -> Result<Committed<Version>, StoreError> {
        self.deletions.note(id, write.now).await?;
        let name_free_at = write.now.after(self.rules.name_kept);
        let store = Arc::clone(&self.store);
        let access = self.accesses.begin_deletion(id).await;
        let write = Box::pin(async move { store.delete_user(id, name_free_at, write).await });
        let job = RecordWrite { key: id, write, change: deleted };
        let ended = self.mutations.write_with(&self.cache, job, [access]).await?;
        self.deletions.begin(id);
        Ok(ended)
    }

    /// Whether this is the user's secret. A user without it, or no user at all, answers false.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED after too many attempts, or errors of the store.
    pub async fn verify_secret(
        &self,
        id: UserId,
        name: &str,
        secret: Zeroizing<String>,
    ) -> Result<bool, Error> {
        if !self.rules.secret_params.contains(name) {
            return Err(Error::invalid("name", "must be the name of a secret parameter"));
        }
        self.attempts.count(&(id, name.to_owned()))?;
        let stored = self.secrets.secret(SecretOwner::User(id), name).await;
        self.hasher.verify(stored.map_err(|error| Error::store(KIND, &error))?, secret).await
    }

    async fn insert(
        &self,
        draft: UserDraft,
        secrets: SecretChange,
        write: Write,
    ) -> Result<Committed<User>, Error> {
        for _ in 0..ID_TRIES {
            let id = match draft.id {
                Some(id) => id,
                None => self.allocate().await?,
            };
            let (store, write) = (Arc::clone(&self.store), write.clone());
            let user = draft.clone().with(id, secrets.clone());
            let write = Box::pin(async move { store.create_user(user, write).await });
            match self.mutations.write(&self.cache, RecordWrite { key: id, write, change: put }).await {
                Err(StoreError::IdTaken | StoreError::IdHeld) if draft.id.is_none() => {
                    self.ids.pass_over(id.get()).await;
                }
                Err(error @ StoreError::IdHeld) => {
                    // If the store keeps no notes about deletions, a node that died left the id held.
                    self.deletions.begin(id);
                    return Err(Error::store(KIND, &error));
                }
                written => return written.map_err(|error| Error::store(KIND, &error)),
            }
        }
        Err(Error::new(Reason::Internal, "no free id was found"))
    }

    async fn allocate(&self) -> Result<UserId, Error> {
        let id = self.ids.next().await.map_err(|error| Error::store(KIND, &error))?;
        ids::user("user_id", id)
    }

    fn check_name(&self, name: &UserName) -> Result<(), Error> {
        if self.reserved.contains(&kith_store::skeleton(name.key())) {
            return Err(Error::invalid("user_name", "must not be, or look like, a reserved name"));
        }
        Ok(())
    }
}

/// When an id's data begins to belong to the account that was created at `created`: a little earlier, because
/// node clocks differ; a deleted user's id is held for longer ([`UserStore::release_id`]).
pub(crate) const fn account_begins(created: Timestamp) -> Timestamp {
    Timestamp(created.0.saturating_sub(CLOCKS_APART_MS))
}
