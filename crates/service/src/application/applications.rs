//! A deployment's applications: creation, decisions and reads.

use std::{sync::Arc, time::Duration};

use kith_cache::{Consistency, Token};
use kith_store::{
    Application, ApplicationBasis, ApplicationChange, ApplicationId, ApplicationKey, ApplicationList,
    ApplicationMark, ApplicationPurpose, ApplicationStore, Applied, Decision, ListedApplication,
    NewApplication, PendingRequests, Receiver, RelationLog, StoreError, Text, Timestamp, UserId, Write,
};

use super::{ApplicationCloser, ApplicationListener, ApplicationsConfig};
use crate::{
    domain_context::DomainContext,
    error::{Error, Reason},
    group::member::Members,
    relation::{Blocks, Follows},
    rpc::{
        call::{Call, Principal, own},
        request::WriteContext,
        secret::SecretHasher,
    },
    user::Users,
    write::mutations::Mutations,
};

pub(super) const KIND: &str = "application";
/// The most receivers in a group, its owner and admins, whose lists contain an application; others find it in
/// the group's list.
const RECEIVERS_MAX: usize = 100;

/// A deployment's applications. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Applications {
    pub(super) store: Arc<dyn ApplicationStore>,
    pub(super) users: Users,
    pub(super) members: Members,
    pub(super) follows: Follows,
    pub(super) blocks: Blocks,
    pub(super) closer: ApplicationCloser,
    listener: Arc<dyn ApplicationListener>,
    pub(super) mutations: Mutations,
    pub(super) log: Arc<dyn RelationLog>,
    hasher: SecretHasher,
    pub(super) config: ApplicationsConfig,
    /// How long events are kept in the relation logs.
    pub(super) log_kept: Duration,
}

/// A sent application.
#[derive(Clone, Debug)]
pub(super) struct ApplicationDraft {
    pub(super) purpose: ApplicationPurpose,
    pub(super) applicant: UserId,
    pub(super) message: Text,
    pub(super) reference: Text,
    pub(super) code: String,
}

/// A decided application.
#[derive(Clone, Debug)]
pub(super) struct DecidedApplication {
    pub(super) application: Application,
    /// The token of the application's effect.
    pub(super) token: Option<Token>,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub(super) struct ApplicationPage<T, Id> {
    pub(super) found: Vec<T>,
    /// The page's last id. `None`: the list has no more.
    pub(super) last: Option<Id>,
}

impl<T, Id> ApplicationPage<T, Id> {
    /// Cuts a read with `size` + 1 entries to a page: the extra entry shows whether there are more.
    pub(super) fn cut(mut found: Vec<T>, size: usize, id: impl Fn(&T) -> Id) -> Self {
        let has_more = found.len() > size;
        found.truncate(size);
        let last = found.last().filter(|_| has_more).map(id);
        Self { found, last }
    }
}

/// The domains that decide about effects and apply them.
#[derive(Clone, Debug)]
pub struct ApplicationDependencies {
    /// The user domain, for accounts.
    pub users: Users,
    /// The member domain, for groups.
    pub members: Members,
    /// The follow lists and records.
    pub follows: Follows,
    /// The block lists and records.
    pub blocks: Blocks,
    /// Is notified about changed applications.
    pub listener: Arc<dyn ApplicationListener>,
}

impl Applications {
    /// Creates it over the domains that decide about effects and apply them.
    #[must_use]
    pub fn new(
        context: DomainContext<'_>,
        dependencies: ApplicationDependencies,
        closer: &ApplicationCloser,
        config: ApplicationsConfig,
        log_kept: Duration,
    ) -> Self {
        let DomainContext { stores, mutations, hasher, .. } = context;
        Self {
            store: Arc::clone(&stores.applications),
            users: dependencies.users,
            members: dependencies.members,
            follows: dependencies.follows,
            blocks: dependencies.blocks,
            closer: closer.clone(),
            listener: dependencies.listener,
            mutations: mutations.clone(),
            log: Arc::clone(&stores.relation_log),
            hasher: hasher.clone(),
            config,
            log_kept,
        }
    }

    /// Creates an application, if none with the same slot is pending; else returns the pending one.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND, FAILED_PRECONDITION, RESOURCE_EXHAUSTED, INVALID_ARGUMENT, or errors of
    /// the store.
    pub(super) async fn apply(
        &self,
        draft: ApplicationDraft,
        context: WriteContext,
    ) -> Result<Application, Error> {
        let write = context.write(&self.hasher).await?;
        let this = self.clone();
        let work = async move {
            let receiver = draft.purpose.receiver();
            let basis = match this.may_apply(&draft, context.principal).await {
                Ok(basis) => basis,
                Err(error) => return this.replay_or_refuse(receiver, write, error).await,
            };
            let new = this.new_application(draft, basis, write.now).await?;
            let id = new.id;
            let applied = this.change(receiver, ApplicationChange::Apply(new), write).await?;
            if applied.replayed {
                return Ok(applied.record);
            }
            // Its preconditions may have ended after they were read, and before there was an application to
            // close.
            let application = this.recheck(applied.record).await?;
            // A request that was pending already is not announced again.
            if application.id == id {
                this.notify(&application);
            }
            Ok(application)
        };
        self.mutations.call(context.deadline, Box::pin(work)).await
    }

    /// Decides about an application, and applies an acceptance's effect. A decision that is stored is
    /// answered with success, even if its effect is still pending.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND, FAILED_PRECONDITION, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn decide(
        &self,
        key: ApplicationKey,
        decision: Decision,
        context: WriteContext,
    ) -> Result<DecidedApplication, Error> {
        let write = context.write(&self.hasher).await?;
        let this = self.clone();
        let work = async move {
            let found = this.get_decidable(key, context.principal).await?;
            if decision == Decision::Accept && found.is_open(write.now) {
                this.check_basis(&found).await?;
                this.check_effect(&found).await?;
            }
            let change = ApplicationChange::Decide(key.id, decision, context.principal.user());
            let applied = this.change(key.receiver, change, write).await?;
            // The stored answer is as old as the decision: the effect may be done since.
            let (replayed, record) = (applied.replayed, applied.record);
            let decided = if replayed { this.find(key).await? } else { record };
            let decided = this.with_effect(decided).await;
            if !replayed {
                this.notify(&decided.application);
            }
            Ok(decided)
        };
        self.mutations.call(context.deadline, Box::pin(work)).await
    }

    /// Withdraws an application.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND, FAILED_PRECONDITION, INVALID_ARGUMENT, or errors of the store.
    pub(super) async fn withdraw(
        &self,
        key: ApplicationKey,
        context: WriteContext,
    ) -> Result<Application, Error> {
        let write = context.write(&self.hasher).await?;
        let this = self.clone();
        let work = async move {
            let found = this.get_application(key, context.principal).await?;
            this.may_withdraw(&found, context.principal).await?;
            let change = ApplicationChange::Withdraw(key.id, context.principal.user());
            let applied = this.change(key.receiver, change, write).await?;
            if !applied.replayed {
                this.notify(&applied.record);
            }
            Ok(applied.record)
        };
        self.mutations.call(context.deadline, Box::pin(work)).await
    }

    /// Reads a page of a list by rising id above `after`, or from its beginning. Requires the list's user, or
    /// the owner or an admin of its group. Closes applications that can no longer be accepted.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND of a group, or errors of the store.
    pub(super) async fn list_applications(
        &self,
        list: ApplicationList,
        after: Option<ApplicationId>,
        size: usize,
        principal: Principal,
    ) -> Result<ApplicationPage<ListedApplication, ApplicationId>, Error> {
        self.may_list(list, principal).await?;
        let first = self.first_of(list).await?;
        let after = after.map_or(first, |after| after.max(first));
        let found = self.store.list_applications(list, after, size.saturating_add(1)).await;
        let page = ApplicationPage::cut(found.map_err(store_error)?, size, |listed| listed.application.id);
        Ok(ApplicationPage { found: self.recheck_list(list, page.found).await?, last: page.last })
    }

    /// Marks applications in a user's received list as received or read now. Requires that user.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND of the user, or errors of the store.
    pub(super) async fn mark_applications(
        &self,
        user: UserId,
        mut ids: Vec<ApplicationId>,
        mark: ApplicationMark,
        call: Call,
    ) -> Result<Vec<ListedApplication>, Error> {
        own(user, call.principal)?;
        self.users.get(user, &Consistency::Cached).await?;
        let (this, list) = (self.clone(), ApplicationList::Received(user));
        let work = async move {
            let first = this.first_of(list).await?;
            ids.retain(|id| *id >= first);
            let store = Arc::clone(&this.store);
            let write =
                Box::pin(async move { store.mark_applications(list, &ids, mark, Timestamp::now()).await });
            this.mutations.run_uncached(write).await.map_err(store_error)
        };
        self.mutations.call(call.deadline, work).await
    }

    /// Counts the pending applications to a receiver. Requires it: the user, or the owner or an admin of the
    /// group.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND of a group, or errors of the store.
    pub(super) async fn count_pending(
        &self,
        receiver: Receiver,
        principal: Principal,
    ) -> Result<PendingRequests, Error> {
        self.may_decide(receiver, principal).await?;
        self.store.count_pending(receiver).await.map_err(store_error)
    }

    /// Makes a change, which the store decides.
    pub(super) async fn change(
        &self,
        receiver: Receiver,
        change: ApplicationChange,
        write: Write,
    ) -> Result<Applied<Application>, Error> {
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move { store.change_application(receiver, change, write).await });
        self.mutations.run_uncached(write).await.map_err(store_error)
    }

    /// Notifies the listener of a changed application, in the background.
    fn notify(&self, application: &Application) {
        let (this, applicant, key) = (self.clone(), application.applicant, application.key());
        tokio::spawn(async move {
            // If they cannot be read, they find it in their lists.
            let mut users = this.receivers(key.receiver).await.unwrap_or_default();
            users.push(applicant);
            users.sort_unstable();
            users.dedup();
            this.listener.changed(users, key);
        });
    }

    /// The users in whose lists an application to this receiver is.
    async fn receivers(&self, receiver: Receiver) -> Result<Vec<UserId>, Error> {
        match receiver {
            Receiver::User(user) => Ok(vec![user]),
            Receiver::Group(group) => self.members.deciders(group, RECEIVERS_MAX).await,
        }
    }

    /// The earlier answer to a request, or else a refusal for this reason.
    async fn replay_or_refuse(
        &self,
        receiver: Receiver,
        write: Write,
        refused: Error,
    ) -> Result<Application, Error> {
        if write.request.is_none() {
            return Err(refused);
        }
        match self.change(receiver, ApplicationChange::ReplayOnly, write).await {
            Ok(applied) => Ok(applied.record),
            Err(error) if error.reason() == Reason::NotFound => Err(refused),
            Err(error) => Err(error),
        }
    }

    async fn new_application(
        &self,
        draft: ApplicationDraft,
        basis: ApplicationBasis,
        now: Timestamp,
    ) -> Result<NewApplication, Error> {
        let receivers = self.receivers(draft.purpose.receiver()).await?;
        Ok(NewApplication {
            id: ApplicationId::at(now, rand::random()),
            purpose: draft.purpose,
            applicant: draft.applicant,
            message: draft.message,
            reference: draft.reference,
            receivers,
            basis,
            expires: now.after(self.config.pending_for),
            kept: self.config.kept,
            pending_max: self.config.pending_max,
        })
    }

    /// The id below all entries that may be kept and belong to the user's present account.
    async fn first_of(&self, list: ApplicationList) -> Result<ApplicationId, Error> {
        let first = self.config.first(Timestamp::now());
        match list {
            ApplicationList::Sent(user) | ApplicationList::Received(user) => {
                Ok(first.max(ApplicationId::at(self.account_begins(user).await?, 0)))
            }
            ApplicationList::Group(_) => Ok(first),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
pub(super) fn store_error(error: StoreError) -> Error {
    Error::store(KIND, &error)
}
