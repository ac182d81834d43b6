//! Applications of a deployment: to make, decide and read them.

use std::{sync::Arc, time::Duration};

use kith_cache::Token;
use kith_store::{
    Application, ApplicationBasis, ApplicationChange, ApplicationId, ApplicationKey, ApplicationList,
    ApplicationMark, ApplicationStore, Applied, Asks, Decision, Docket, ListedApplication, NewApplication,
    Receiver, RelationLog, StoreError, Text, Timestamp, UserId, Write,
};
use tokio::time::Instant;

use super::Closing;
use crate::{
    domain_context::DomainContext,
    error::Error,
    group::members::Members,
    relation::{Blocks, Follows},
    rpc::{request::WriteContext, secret::SecretHasher},
    user::Users,
    write::mutations::Mutations,
};

pub(super) const KIND: &str = "application";
/// Owner and admins of a group in whose lists an application stands; others find it in that of the group.
const RECEIVERS_MAX: usize = 100;

/// What is configured about applications.
#[derive(Clone, Copy, Debug)]
pub struct ApplicationRules {
    /// Most that are pending with one receiver.
    pub pending_max: u32,
    /// How long one can be decided.
    pub pending_for: Duration,
    /// How long one is kept after that.
    pub kept: Duration,
    /// How long is kept what users did about each other.
    pub log_kept: Duration,
}

impl ApplicationRules {
    /// Below all that can still be known: those before were made so long ago that they are forgotten.
    pub(super) fn first(&self, now: Timestamp) -> ApplicationId {
        let known = self.pending_for.saturating_add(self.kept);
        let millis = i64::try_from(known.as_millis()).unwrap_or(i64::MAX);
        ApplicationId::at(Timestamp(now.0.saturating_sub(millis)), 0)
    }
}

/// The applications of a deployment. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Applications {
    pub(super) store: Arc<dyn ApplicationStore>,
    pub(super) users: Users,
    pub(super) members: Members,
    pub(super) follows: Follows,
    pub(super) blocks: Blocks,
    pub(super) closing: Closing,
    pub(super) mutations: Mutations,
    pub(super) log: Arc<dyn RelationLog>,
    hasher: SecretHasher,
    pub(super) rules: ApplicationRules,
}

/// What somebody asks for, as it was sent.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) asks: Asks,
    pub(super) applicant: UserId,
    pub(super) message: Text,
    pub(super) reference: Text,
    pub(super) code: String,
}

/// An application that was decided.
#[derive(Clone, Debug)]
pub(super) struct Decided {
    pub(super) application: Application,
    /// Of what it brought about.
    pub(super) token: Option<Token>,
}

/// Those that decide whether what is asked for comes about.
#[derive(Clone, Debug)]
pub struct Deciders {
    /// Users.
    pub users: Users,
    /// Members of groups.
    pub members: Members,
    /// Who follows whom.
    pub follows: Follows,
    /// Who blocked whom.
    pub blocks: Blocks,
}

impl Applications {
    /// Over those that decide whether and how what is asked for comes about.
    #[must_use]
    pub fn new(
        context: DomainContext<'_>,
        deciders: Deciders,
        closing: &Closing,
        rules: ApplicationRules,
    ) -> Self {
        let DomainContext { stores, mutations, hasher, .. } = context;
        Self {
            store: Arc::clone(&stores.applications),
            users: deciders.users,
            members: deciders.members,
            follows: deciders.follows,
            blocks: deciders.blocks,
            closing: closing.clone(),
            mutations: mutations.clone(),
            log: Arc::clone(&stores.relation_log),
            hasher: hasher.clone(),
            rules,
        }
    }

    /// Makes an application, where none like it is pending; else tells that one.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND, FAILED_PRECONDITION, RESOURCE_EXHAUSTED, INVALID_ARGUMENT, or what a failing store makes.
    pub(super) async fn apply(&self, draft: Draft, terms: WriteContext) -> Result<Application, Error> {
        let write = terms.write(&self.hasher).await?;
        let this = self.clone();
        let work = async move {
            let receiver = draft.asks.receiver();
            let basis = match this.may_apply(&draft, terms.principal).await {
                Ok(basis) => basis,
                Err(error) => return this.again(receiver, write, error).await,
            };
            let receivers = this.receivers(receiver).await?;
            let new = this.made(draft, basis, receivers, write.now);
            let applied = this.applied(receiver, ApplicationChange::Apply(new), write).await;
            let applied = applied.map_err(store_error)?;
            if applied.replayed {
                return Ok(applied.record);
            }
            // What it rests on may have ended after it was read, and before there was an application to close.
            this.settled(applied.record).await
        };
        self.mutations.call(terms.deadline, Box::pin(work)).await
    }

    /// Decides about an application, and brings about what was accepted. The answer to a decision that stands is that it
    /// stands, though what it is to bring about be outstanding.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND, FAILED_PRECONDITION, INVALID_ARGUMENT, or what a failing store makes.
    pub(super) async fn decide(
        &self,
        key: ApplicationKey,
        decision: Decision,
        terms: WriteContext,
    ) -> Result<Decided, Error> {
        let write = terms.write(&self.hasher).await?;
        let this = self.clone();
        let work = async move {
            let found = this.decidable(key, terms.principal).await?;
            if decision == Decision::Accept && found.is_open(write.now) {
                this.must_hold(&found).await?;
                this.is_possible(&found).await?;
            }
            let change = ApplicationChange::Decide(key.id, decision, terms.principal.user());
            let applied = this.applied(key.receiver, change, write).await.map_err(store_error)?;
            // The answer that is kept is of the moment of the decision: what it brings about may be done since.
            let decided = if applied.replayed { this.find(key).await? } else { applied.record };
            Ok(this.brought_about(decided).await)
        };
        self.mutations.call(terms.deadline, Box::pin(work)).await
    }

    /// Takes an application back.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND, FAILED_PRECONDITION, INVALID_ARGUMENT, or what a failing store makes.
    pub(super) async fn withdraw(
        &self,
        key: ApplicationKey,
        terms: WriteContext,
    ) -> Result<Application, Error> {
        let write = terms.write(&self.hasher).await?;
        let this = self.clone();
        let work = async move {
            let found = this.seen(key, terms.principal).await?;
            this.may_withdraw(&found, terms.principal).await?;
            let change = ApplicationChange::Withdraw(key.id, terms.principal.user());
            this.change(key.receiver, change, write).await
        };
        self.mutations.call(terms.deadline, Box::pin(work)).await
    }

    /// Reads a list by rising id above `after`, or from its beginning.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn list(
        &self,
        list: ApplicationList,
        after: Option<ApplicationId>,
        limit: usize,
    ) -> Result<Vec<ListedApplication>, Error> {
        let first = self.first_of(list).await?;
        let after = after.map_or(first, |after| after.max(first));
        self.store.application_list(list, after, limit).await.map_err(store_error)
    }

    /// Notes about some of a list that they were received or read now.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn mark(
        &self,
        list: ApplicationList,
        ids: &[ApplicationId],
        mark: ApplicationMark,
        deadline: Instant,
    ) -> Result<Vec<ListedApplication>, Error> {
        let (this, mut ids) = (self.clone(), ids.to_vec());
        let work = async move {
            let first = this.first_of(list).await?;
            ids.retain(|id| *id >= first);
            let store = Arc::clone(&this.store);
            let write =
                Box::pin(async move { store.mark_applications(list, &ids, mark, Timestamp::now()).await });
            this.mutations.run_uncached(write).await.map_err(store_error)
        };
        self.mutations.call(deadline, work).await
    }

    /// What is pending with a receiver.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn docket(&self, receiver: Receiver) -> Result<Docket, Error> {
        self.store.docket(receiver).await.map_err(store_error)
    }

    /// Makes a change as the store decides it.
    ///
    /// # Errors
    /// What the store says.
    pub(super) async fn change(
        &self,
        receiver: Receiver,
        change: ApplicationChange,
        write: Write,
    ) -> Result<Application, Error> {
        let applied = self.applied(receiver, change, write).await;
        applied.map(|applied| applied.record).map_err(store_error)
    }

    /// The same; tells whether an earlier request did it.
    ///
    /// # Errors
    /// What the store says.
    pub(super) async fn applied(
        &self,
        receiver: Receiver,
        change: ApplicationChange,
        write: Write,
    ) -> Result<Applied<Application>, StoreError> {
        let store = Arc::clone(&self.store);
        let write = Box::pin(async move { store.change_application(receiver, change, write).await });
        self.mutations.run_uncached(write).await
    }

    /// What was answered to a request before; else that it is refused for this reason now.
    async fn again(&self, receiver: Receiver, write: Write, refused: Error) -> Result<Application, Error> {
        if write.request.is_none() {
            return Err(refused);
        }
        match self.applied(receiver, ApplicationChange::Again, write).await {
            Ok(applied) => Ok(applied.record),
            Err(StoreError::NotFound) => Err(refused),
            Err(error) => Err(store_error(error)),
        }
    }

    async fn receivers(&self, receiver: Receiver) -> Result<Vec<UserId>, Error> {
        match receiver {
            Receiver::User(user) => Ok(vec![user]),
            Receiver::Group(group) => self.members.deciders(group, RECEIVERS_MAX).await,
        }
    }

    fn made(
        &self,
        draft: Draft,
        basis: ApplicationBasis,
        receivers: Vec<UserId>,
        now: Timestamp,
    ) -> NewApplication {
        NewApplication {
            id: ApplicationId::at(now, rand::random()),
            asks: draft.asks,
            applicant: draft.applicant,
            message: draft.message,
            reference: draft.reference,
            receivers,
            basis,
            expires: now.after(self.rules.pending_for),
            kept: self.rules.kept,
            pending_max: self.rules.pending_max,
        }
    }

    /// Below all of a list that can still be known, and that is of the account that has the id of the user now.
    async fn first_of(&self, list: ApplicationList) -> Result<ApplicationId, Error> {
        let first = self.rules.first(Timestamp::now());
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
