//! Closes pending applications when what they rest on ends (an account, a group, a role), and when what they ask for comes
//! about otherwise.
//!
//! An acceptance checks for itself what an application rests on (`basis.rs`): nothing is accepted wrongly where a node crashes
//! before it comes to this. What is closed here is neither listed nor counted as pending any more.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::try_join_all;
use kith_store::{
    Application, ApplicationChange, ApplicationKind, ApplicationList, ApplicationSlot, ApplicationState,
    ApplicationStore, Asks, Edge, GroupId, Member, MemberKey, Receiver, StoreError, Stores, Timestamp,
    UserId, Write,
};

use tokio::time::Instant;

use super::{ApplicationRules, applications::store_error};
use crate::{
    error::{Error, or_none},
    group::members::{MembershipEvent, MembershipListener},
    relation::FriendshipListener,
    user::{AccountCleanup, CLEANED_WITHIN, Cleaned},
    write::mutations::Mutations,
};

/// Applications that are read at a time.
const PAGE: usize = 100;
/// Members whose applications are closed at a time.
const AT_ONCE: usize = 16;

/// Closes pending applications. Cheap to clone. All of it runs within [`Mutations::run`].
#[derive(Clone, Debug)]
pub struct Closing {
    store: Arc<dyn ApplicationStore>,
    mutations: Mutations,
    rules: ApplicationRules,
}

impl Closing {
    /// Over `stores`.
    #[must_use]
    pub fn new(stores: &Stores, mutations: Mutations, rules: ApplicationRules) -> Self {
        Self { store: Arc::clone(&stores.applications), mutations, rules }
    }

    /// Closes an application, if it is still pending.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn close(&self, found: &Application) -> Result<(), Error> {
        self.close_slot(found.asks.receiver(), found.slot(), found.created).await
    }

    /// Closes what a deleted user has applied for, also in the name of groups, and what it was asked. Reads all that is kept
    /// of both, a page at a time.
    ///
    /// # Errors
    /// What a failing store makes; some may be closed then.
    async fn of_account(&self, user: UserId) -> Result<(), Error> {
        let is_of_user =
            |found: &Application| found.applicant == user || found.asks.receiver() == Receiver::User(user);
        for list in [ApplicationList::Sent(user), ApplicationList::Received(user)] {
            self.close_in(list, is_of_user).await?;
        }
        Ok(())
    }

    /// Closes what a dismissed group was asked, and the invites in its name. Reads all that is kept of it, a page at a time.
    ///
    /// # Errors
    /// What a failing store makes; some may be closed then.
    async fn of_group(&self, group: GroupId) -> Result<(), Error> {
        self.close_in(ApplicationList::Group(group), |_| true).await
    }

    /// Closes the invites that a user made by its role in a group, which it has no more. Reads all that is kept of what the
    /// user has sent, a page at a time.
    ///
    /// # Errors
    /// What a failing store makes; some may be closed then.
    async fn of_inviter(&self, key: MemberKey) -> Result<(), Error> {
        let is_void = |found: &Application| {
            let by_role = found.basis.is_some_and(|basis| basis.by_role);
            by_role && matches!(found.asks, Asks::Invite(group, _) if group == key.group)
        };
        self.close_in(ApplicationList::Sent(key.user), is_void).await
    }

    /// Closes what asked for the memberships of these, who came into one group. One read for the group and one for each member
    /// where nothing is pending.
    ///
    /// # Errors
    /// What a failing store makes; some may be closed then.
    async fn of_members(&self, group: GroupId, members: &[Member]) -> Result<(), Error> {
        let docket = self.store.docket(Receiver::Group(group)).await.map_err(store_error)?;
        let is_asked = docket.requests > 0;
        for members in members.chunks(AT_ONCE) {
            let mut closings = Vec::with_capacity(members.len());
            for member in members {
                closings.push(self.of_member(member, is_asked));
            }
            try_join_all(closings).await?;
        }
        Ok(())
    }

    /// Closes the request of `edge.from` to be a friend of `edge.to`. One read where nothing is pending.
    ///
    /// # Errors
    /// What a failing store makes.
    async fn of_friends(&self, edge: Edge) -> Result<(), Error> {
        let receiver = Receiver::User(edge.to);
        if self.store.docket(receiver).await.map_err(store_error)?.requests == 0 {
            return Ok(());
        }
        let slot = ApplicationSlot { kind: ApplicationKind::Friend, origin: edge.from.get() };
        self.close_slot(receiver, slot, Timestamp::now()).await
    }

    async fn of_member(&self, member: &Member, is_group_asked: bool) -> Result<(), Error> {
        let MemberKey { group, user } = member.key;
        if is_group_asked {
            let slot = ApplicationSlot { kind: ApplicationKind::Join, origin: user.get() };
            self.close_slot(Receiver::Group(group), slot, member.joined).await?;
        }
        let receiver = Receiver::User(user);
        if self.store.docket(receiver).await.map_err(store_error)?.invites == 0 {
            return Ok(());
        }
        let slot = ApplicationSlot { kind: ApplicationKind::Invite, origin: group.get() };
        self.close_slot(receiver, slot, member.joined).await
    }

    async fn close_in(
        &self,
        list: ApplicationList,
        is_void: impl Fn(&Application) -> bool + Send + Sync,
    ) -> Result<(), Error> {
        let mut after = self.rules.first(Timestamp::now());
        loop {
            let page = self.store.application_list(list, after, PAGE).await.map_err(store_error)?;
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

    /// Closes what is pending of a slot and was made by this moment.
    async fn close_slot(
        &self,
        receiver: Receiver,
        slot: ApplicationSlot,
        by_then: Timestamp,
    ) -> Result<(), Error> {
        let (store, write) = (Arc::clone(&self.store), Write::at(Timestamp::now()));
        let change = ApplicationChange::Close(slot, by_then);
        let write = Box::pin(async move { store.change_application(receiver, change, write).await });
        match self.mutations.run_uncached(write).await {
            Ok(_) | Err(StoreError::NotFound) => Ok(()),
            Err(error) => Err(store_error(error)),
        }
    }
}

#[async_trait]
impl MembershipListener for Closing {
    /// What cannot be closed now is closed when it is decided or listed.
    async fn changed(&self, event: &MembershipEvent) -> Result<(), Error> {
        match event {
            MembershipEvent::Joined { members, .. } if members.is_empty() => {}
            MembershipEvent::Joined { group, members, .. } => self.of_members(*group, members).await?,
            MembershipEvent::Left { deciders: inviters, .. } | MembershipEvent::Demoted(inviters) => {
                for inviter in inviters {
                    self.of_inviter(*inviter).await?;
                }
            }
            MembershipEvent::Dismissed(group) => self.of_group(*group).await?,
        }
        Ok(())
    }
}

#[async_trait]
impl FriendshipListener for Closing {
    async fn declined(&self, edge: Edge) -> Result<(), Error> {
        self.of_friends(edge).await
    }
}

#[async_trait]
impl AccountCleanup for Closing {
    async fn clean_up(&self, user: UserId) -> Result<Cleaned, Error> {
        let this = self.clone();
        let work = async move { or_none(this.of_account(user).await) };
        self.mutations.run(Instant::now() + CLEANED_WITHIN, work).await?;
        Ok(Cleaned::All)
    }
}
