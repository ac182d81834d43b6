//! Whether users are let in: suspensions, and from when on tokens count.
//!
//! The record is strict: after a change is acknowledged, no node lets the user in by the state before. Nearly
//! no user has such a record, and absence is kept in memory, so that a call's check is one lookup there. It
//! is decided in one place for all calls ([`Accesses::known`], [`Accesses::check`]), and once a second for
//! what is open (`LiveUsers`).

mod convert;
mod live;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use futures::FutureExt as _;
use kith_cache::{Change, Consistency, Entry, Policy, TieredCache, WriteParts};
use kith_store::{AccessChange, AccessStore, Timestamp, User, UserAccess, UserId};
use parking_lot::Mutex;

pub(super) use self::convert::{sign_out_time, suspension, to_wire};
use self::live::LiveUsers;
pub use self::live::{LiveAccess, access_job};
use crate::{
    domain_context::DomainContext,
    error::{Error, Reason},
    rpc::{
        request::WriteContext,
        secret::SecretHasher,
        versions::{cache_version, loaded_all},
    },
    write::{
        mutations::{Committed, Mutations, RecordWrite},
        record_codec::RecordCodec,
    },
};

/// The name of the namespace in the tiers.
pub const ACCESSES: &str = "access";

const KIND: &str = "user";
/// Most users whose sessions wait for their end.
const SUSPENDED_MAX: usize = 10_000;
/// How often a suspended user's sessions are ended: a session that was being opened may come later.
const ENDED_TIMES: u8 = 3;

/// Why a user is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessDenial {
    /// The user is suspended.
    Suspended,
    /// The token was issued before the user was signed out, or for an account that was deleted.
    SignedOut,
    /// It was opened for an account that was deleted.
    Deleted,
}

impl AccessDenial {
    /// The error that the caller gets.
    #[must_use]
    pub fn error(self) -> Error {
        match self {
            Self::Suspended => Error::new(Reason::UserSuspended, "the user is suspended"),
            Self::SignedOut => Error::new(
                Reason::CredentialsRefused,
                "the credential is not that of a caller or a user of this node",
            ),
            Self::Deleted => Error::not_found(KIND),
        }
    }
}

/// Users' access, through this node's tiers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Accesses {
    cache: TieredCache<UserId, UserAccess>,
    /// The user copies, whose version a change raises.
    users: TieredCache<UserId, User>,
    store: Arc<dyn AccessStore>,
    mutations: Mutations,
    hasher: SecretHasher,
    live: Arc<LiveUsers>,
    /// Users who were suspended on this node, and how often their sessions are to be ended.
    suspended: Arc<Mutex<HashMap<UserId, u8>>>,
    /// A user whose record could not be read, until some record could be read again; 0: none. Reads do not
    /// wait for the store meanwhile.
    unreadable: Arc<AtomicI64>,
}

impl Accesses {
    pub(super) fn new(
        context: DomainContext<'_>,
        policy: Policy<UserAccess>,
        users: TieredCache<UserId, User>,
    ) -> Self {
        let DomainContext { stores, caches, mutations, hasher } = context;
        let store = Arc::clone(&stores.accesses);
        let cache = caches.records(policy, RecordCodec::ACCESS, &store, |store, ids, options| {
            async move {
                let strong = options.strong;
                loaded_all(if strong { store.strong_accesses(ids).await } else { store.accesses(ids).await })
            }
            .boxed()
        });
        Self {
            cache,
            users,
            store,
            mutations: mutations.clone(),
            hasher: hasher.clone(),
            live: Arc::default(),
            suspended: Arc::default(),
            unreadable: Arc::default(),
        }
    }

    /// Memory's answer to [`Self::check`]; `None`: it does not know. Costs one lookup.
    #[inline]
    #[must_use]
    pub fn known(&self, user: UserId, issued: Option<Timestamp>) -> Option<Result<u32, AccessDenial>> {
        self.cache.hit(&user).map(|entry| decide(entry.as_deref_value(), issued))
    }

    /// Whether a user is let in, by a token that was issued at this time if there is one. Returns its
    /// account's number. `waits`: also while the store is known not to answer.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub async fn check(
        &self,
        user: UserId,
        issued: Option<Timestamp>,
        waits: bool,
    ) -> Result<Result<u32, AccessDenial>, Error> {
        if let Some(known) = self.known(user, issued) {
            return Ok(known);
        }
        if !waits && self.unreadable.load(Ordering::Relaxed) != 0 {
            return Err(Error::new(Reason::StoreUnavailable, "the store does not answer"));
        }
        Ok(decide(self.get(user, &Consistency::Cached).await?.as_deref_value(), issued))
    }

    /// The account number for this id.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub(crate) async fn account(&self, user: UserId) -> Result<u32, Error> {
        if let Some(Ok(account)) = self.known(user, None) {
            return Ok(account);
        }
        let entry = self.get(user, &Consistency::Cached).await?;
        Ok(entry.map_or(0, |entry| entry.value.account))
    }

    /// Checks a user for whom a service as itself begins something that only users who are let in have.
    ///
    /// # Errors
    /// USER_SUSPENDED, or if the record cannot be read.
    pub(crate) async fn check_begins(&self, user: UserId) -> Result<u32, Error> {
        self.check(user, None, true).await?.map_err(AccessDenial::error)
    }

    /// Which users are suspended, in their order. A user whose record cannot be read counts as let in.
    pub(crate) async fn suspended(&self, users: &[UserId]) -> Vec<bool> {
        let found = self.cache.get_many(users, &Consistency::Cached).await;
        let is_suspended = |entry: Option<Entry<UserAccess>>| {
            decide(entry.as_deref_value(), None) == Err(AccessDenial::Suspended)
        };
        found.into_iter().map(|found| found.is_ok_and(is_suspended)).collect()
    }

    /// Begins something that is open for a user until it is dropped, and ends when the user is let in no
    /// more. `account`: its account's number; `None`: it could not be read.
    #[must_use]
    pub fn enter(&self, user: UserId, issued: Option<Timestamp>, account: Option<u32>) -> LiveAccess {
        self.live.enter(user, issued, account)
    }

    /// A user's record, also if it restricts nothing.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) async fn read(
        &self,
        user: UserId,
        consistency: &Consistency,
    ) -> Result<Arc<UserAccess>, Error> {
        let entry = self.get(user, consistency).await?;
        Ok(entry.map_or_else(|| Arc::new(UserAccess::unrestricted(user)), |entry| entry.value))
    }

    async fn get(&self, user: UserId, consistency: &Consistency) -> Result<Option<Entry<UserAccess>>, Error> {
        let found = self.cache.get_with(&user, consistency).await.map_err(|error| Error::cache(KIND, &error));
        match &found {
            Ok(_) => self.unreadable.store(0, Ordering::Relaxed),
            Err(error) if error.reason() == Reason::StoreUnavailable => {
                self.unreadable.store(user.get(), Ordering::Relaxed);
            }
            Err(_) => {}
        }
        found
    }

    /// Changes a user's access.
    ///
    /// # Errors
    /// NOT_FOUND, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn change(
        &self,
        id: UserId,
        change: AccessChange,
        context: WriteContext,
    ) -> Result<Committed<UserAccess>, Error> {
        let write = context.write(&self.hasher).await?;
        let this = self.clone();
        let suspends = matches!(change, AccessChange::Suspend(_));
        let work = async move {
            let user = this.users.begin_write(&[id]).await.invalidating();
            let store = Arc::clone(&this.store);
            let write = Box::pin(async move { store.change_access(id, change, write).await });
            let job = RecordWrite { key: id, write, change: put };
            let written = this.mutations.write_with(&this.cache, job, [user]).await;
            if suspends && written.is_ok() {
                this.end_sessions(id);
            }
            written.map_err(|error| Error::store(KIND, &error))
        };
        self.mutations.call(context.deadline, work).await
    }

    /// Makes [`access_job`] end a user's sessions.
    fn end_sessions(&self, user: UserId) {
        let mut suspended = self.suspended.lock();
        if suspended.len() < SUSPENDED_MAX {
            suspended.insert(user, ENDED_TIMES);
        } else {
            tracing::warn!("more users were suspended at once than their sessions can be ended for");
        }
    }

    /// Begins to delete a user, which changes its access.
    pub(super) async fn begin_deletion(&self, id: UserId) -> WriteParts {
        self.cache.begin_write(&[id]).await.invalidating()
    }
}

/// An entry's record, which may be absent.
trait AccessEntry {
    fn as_deref_value(&self) -> Option<&UserAccess>;
}

impl AccessEntry for Option<Entry<UserAccess>> {
    fn as_deref_value(&self) -> Option<&UserAccess> {
        self.as_ref().map(|entry| &*entry.value)
    }
}

#[inline]
fn decide(access: Option<&UserAccess>, issued: Option<Timestamp>) -> Result<u32, AccessDenial> {
    let Some(access) = access else { return Ok(0) };
    if issued.is_some_and(|issued| !access.takes_token(issued)) {
        return Err(AccessDenial::SignedOut);
    }
    if access.suspension.is_some() && access.is_suspended(Timestamp::now()) {
        return Err(AccessDenial::Suspended);
    }
    Ok(access.account)
}

/// A record that restricts nothing is absent.
fn put(access: &Arc<UserAccess>) -> Change<UserAccess> {
    Change::Invalidate { version: Some(cache_version(access.version)) }
}
