//! Closes pending applications when their preconditions end (an account, a group, a role), and when their
//! purpose is fulfilled in another way.
//!
//! An acceptance checks the preconditions itself (`basis.rs`), so nothing is accepted wrongly if a node
//! crashes before it closes an application. Closed applications are no longer listed or counted as pending.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::try_join_all;
use kith_store::{
    Application, ApplicationChange, ApplicationList, ApplicationPurpose, ApplicationState, ApplicationStore,
    Edge, GroupId, Member, MemberKey, PendingRequests, Receiver, StoreError, Stores, Timestamp, UserId,
    Write,
};
use tokio::time::Instant;

use super::{ApplicationsConfig, applications::store_error};
use crate::{
    error::{Error, or_none},
    group::member::{MembershipEvent, MembershipListener},
    relation::FriendshipListener,
    user::{AccountCleanup, CLEANED_WITHIN, Cleaned},
    write::mutations::Mutations,
};

/// Applications that are read at a time.
const PAGE: usize = 100;
/// Members whose applications are closed at a time.
const AT_ONCE: usize = 16;

/// Closes pending applications. Cheap to clone. All methods must run within [`Mutations::run`].
#[derive(Clone, Debug)]
pub struct ApplicationCloser {
    store: Arc<dyn ApplicationStore>,
    mutations: Mutations,
    config: ApplicationsConfig,
}

impl ApplicationCloser {
    /// Creates it over `stores`.
    #[must_use]
    pub fn new(stores: &Stores, mutations: Mutations, config: ApplicationsConfig) -> Self {
        Self { store: Arc::clone(&stores.applications), mutations, config }
    }

    /// Closes an application, if it is still pending.
    pub(super) async fn close(&self, found: &Application) -> Result<(), Error> {
        self.close_pending(found.purpose, found.applicant, found.created).await
    }

    /// Closes the invites that a user made by its role in a group, which it no longer has. Reads the user's
    /// whole list of sent applications, a page at a time.
    async fn close_invites_of(&self, key: MemberKey) -> Result<(), Error> {
        let is_void = |found: &Application| {
            let by_role = found.basis.is_some_and(|basis| basis.by_role);
            by_role && matches!(found.purpose, ApplicationPurpose::Invite(group, _) if group == key.group)
        };
        self.close_in_list(ApplicationList::Sent(key.user), is_void).await
    }

    /// Closes the applications for the memberships of these users, who joined one group. Costs one read for
    /// the group and one for each member if nothing is pending.
    async fn close_of_members(&self, group: GroupId, members: &[Member]) -> Result<(), Error> {
        let is_asked = self.count_pending(Receiver::Group(group)).await?.requests > 0;
        for members in members.chunks(AT_ONCE) {
            let mut closings = Vec::with_capacity(members.len());
            for member in members {
                closings.push(self.close_of_member(member, is_asked));
            }
            try_join_all(closings).await?;
        }
        Ok(())
    }

    async fn close_of_member(&self, member: &Member, is_group_asked: bool) -> Result<(), Error> {
        let MemberKey { group, user } = member.key;
        if is_group_asked {
            self.close_pending(ApplicationPurpose::Join(group), user, member.joined).await?;
        }
        if self.count_pending(Receiver::User(user)).await?.invites == 0 {
            return Ok(());
        }
        // An invite is found by its group only.
        self.close_pending(ApplicationPurpose::Invite(group, user), user, member.joined).await
    }

    async fn count_pending(&self, receiver: Receiver) -> Result<PendingRequests, Error> {
        self.store.count_pending(receiver).await.map_err(store_error)
    }

    /// Reads a whole list, a page at a time. If it fails, some may be closed.
    async fn close_in_list(
        &self,
        list: ApplicationList,
        is_void: impl Fn(&Application) -> bool + Send + Sync,
    ) -> Result<(), Error> {
        let mut after = self.config.first(Timestamp::now());
        loop {
            let page = self.store.list_applications(list, after, PAGE).await.map_err(store_error)?;
            for found in page.iter().map(|listed| &listed.application) {
                if found.state == ApplicationState::Pending && is_void(found) {
                    self.close(found).await?;
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE => after = last.application.id,
                _ => return Ok(()),
            }
        }
    }

    /// Closes a pending application of this applicant that was made by this time.
    pub(super) async fn close_pending(
        &self,
        purpose: ApplicationPurpose,
        applicant: UserId,
        by_then: Timestamp,
    ) -> Result<(), Error> {
        let (store, write) = (Arc::clone(&self.store), Write::at(Timestamp::now()));
        let change = ApplicationChange::Close(purpose.slot(applicant), by_then);
        let write = async move { store.change_application(purpose.receiver(), change, write).await };
        match self.mutations.run_uncached(Box::pin(write)).await {
            // No application was pending, or it was made later.
            Ok(_) | Err(StoreError::NotFound) => Ok(()),
            Err(error) => Err(store_error(error)),
        }
    }
}

#[async_trait]
impl MembershipListener for ApplicationCloser {
    /// An application that cannot be closed now is closed when it is decided or listed.
    async fn changed(&self, event: &MembershipEvent) -> Result<(), Error> {
        match event {
            MembershipEvent::Joined { members, .. } if members.is_empty() => {}
            MembershipEvent::Joined { group, members, .. } => self.close_of_members(*group, members).await?,
            MembershipEvent::Left { deciders: inviters, .. } | MembershipEvent::Demoted(inviters) => {
                for inviter in inviters {
                    self.close_invites_of(*inviter).await?;
                }
            }
            // The former owner is an admin.
            MembershipEvent::OwnerChanged { .. }
            | MembershipEvent::Changed(_)
            | MembershipEvent::AllMuted(_) => {}
            MembershipEvent::Dismissed(group) => {
                self.close_in_list(ApplicationList::Group(*group), |_| true).await?
            }
        }
        Ok(())
    }
}

#[async_trait]
impl FriendshipListener for ApplicationCloser {
    async fn declined(&self, edge: Edge) -> Result<(), Error> {
        if self.count_pending(Receiver::User(edge.to)).await?.requests == 0 {
            return Ok(());
        }
        self.close_pending(ApplicationPurpose::Friend(edge.to), edge.from, Timestamp::now()).await
    }
}

#[async_trait]
impl AccountCleanup for ApplicationCloser {
    async fn clean_up(&self, user: UserId) -> Result<Cleaned, Error> {
        let this = self.clone();
        let work = async move {
            let is_of_user = |found: &Application| {
                found.applicant == user || found.purpose.receiver() == Receiver::User(user)
            };
            for list in [ApplicationList::Sent(user), ApplicationList::Received(user)] {
                or_none(this.close_in_list(list, is_of_user).await)?;
            }
            Ok(())
        };
        self.mutations.run(Instant::now() + CLEANED_WITHIN, work).await?;
        Ok(Cleaned::All)
    }
}
