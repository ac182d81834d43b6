//! The rights to apply, decide and read, and whether an effect is possible.

use kith_cache::Consistency;
use kith_store::{
    Application, ApplicationBasis, ApplicationKey, ApplicationList, ApplicationPurpose, Edge, MemberKey,
    Permissions, Receiver, Timestamp, UserId,
};

use super::{
    Applications,
    applications::{ApplicationDraft, KIND, store_error},
};
use crate::{
    error::{Error, Reason},
    rpc::call::{Principal, own},
};

impl Applications {
    /// Checks that the principal may make this application. Returns the application's preconditions.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND, FAILED_PRECONDITION, RESOURCE_EXHAUSTED, or errors of the store.
    pub(super) async fn may_apply(
        &self,
        draft: &ApplicationDraft,
        principal: Principal,
    ) -> Result<ApplicationBasis, Error> {
        let applicant = draft.applicant;
        if principal.user().is_some_and(|user| user != applicant) {
            return Err(Error::not_allowed("users apply for themselves"));
        }
        let created = self.account(applicant, "applicant_id").await?;
        let mut basis = ApplicationBasis { applicant: created, user: None, group: None, by_role: false };
        match draft.purpose {
            ApplicationPurpose::Friend(user) => {
                basis.user = Some(self.account(user, "user_id").await?);
                let edge = Edge { from: applicant, to: user };
                self.check_not_blocked(edge).await?;
                self.check_allowed_by(edge, Permissions::ADD_FRIEND).await?;
                if self.follows.are_friends(edge).await? {
                    return Err(Error::new(Reason::StateForbids, "the users are friends already"));
                }
            }
            ApplicationPurpose::Join(group) => {
                // The group is read before the membership: a user who joins after that has a later version.
                basis.group = Some(self.members.basis(group).await?);
                self.members.may_apply(MemberKey { group, user: applicant }, &draft.code).await?;
            }
            ApplicationPurpose::Invite(group, user) => {
                basis.group = Some(self.members.basis(group).await?);
                basis.by_role = principal != Principal::Service;
                self.members.may_invite(MemberKey { group, user }, principal).await?;
                basis.user = Some(self.account(user, "user_id").await?);
                let edge = Edge { from: applicant, to: user };
                self.check_not_blocked(edge).await?;
                self.check_allowed_by(edge, Permissions::NONE).await?;
            }
        }
        Ok(basis)
    }

    /// An application about which the principal may decide.
    ///
    /// # Errors
    /// PERMISSION_DENIED whether or not there is such an application, NOT_FOUND, or errors of the store.
    pub(super) async fn get_decidable(
        &self,
        key: ApplicationKey,
        principal: Principal,
    ) -> Result<Application, Error> {
        self.may_decide(key.receiver, principal).await?;
        let found = self.find(key).await?;
        if principal.user() == Some(found.applicant) {
            return Err(Error::not_allowed("an applicant cannot decide about their own application"));
        }
        Ok(found)
    }

    /// Checks that the principal is this receiver: the user, or the owner or an admin of the group.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND of a group, or errors of the store.
    pub(super) async fn may_decide(&self, receiver: Receiver, principal: Principal) -> Result<(), Error> {
        match receiver {
            Receiver::User(user) => own(user, principal),
            Receiver::Group(group) => self.members.may_decide(group, principal).await,
        }
    }

    /// Checks that the principal may read this list: its user, or the owner or an admin of its group.
    ///
    /// # Errors
    /// PERMISSION_DENIED, NOT_FOUND of a group, or errors of the store.
    pub(super) async fn may_list(&self, list: ApplicationList, principal: Principal) -> Result<(), Error> {
        match list {
            ApplicationList::Sent(user) | ApplicationList::Received(user) => own(user, principal),
            ApplicationList::Group(group) => self.members.may_decide(group, principal).await,
        }
    }

    /// An application that the principal may read.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn get_application(
        &self,
        key: ApplicationKey,
        principal: Principal,
    ) -> Result<Application, Error> {
        let found = self.find(key).await?;
        let Principal::User(user) = principal else { return Ok(found) };
        let is_own = found.applicant == user || key.receiver == Receiver::User(user);
        if is_own && self.account_begins(user).await? > found.created {
            return Err(Error::not_found(KIND));
        }
        if is_own || self.is_of_own_group(&found, principal).await? {
            return Ok(found);
        }
        Err(Error::not_found(KIND))
    }

    /// Checks that the principal may withdraw this: the applicant; for an invite the owner, an admin or a
    /// service.
    ///
    /// # Errors
    /// PERMISSION_DENIED, or errors of the store.
    pub(super) async fn may_withdraw(&self, found: &Application, principal: Principal) -> Result<(), Error> {
        let is_own = principal.user().is_none_or(|user| user == found.applicant);
        let is_invite = matches!(found.purpose, ApplicationPurpose::Invite(..));
        if is_own || is_invite && self.is_of_own_group(found, principal).await? {
            return Ok(());
        }
        Err(Error::not_allowed(
            "only who applied may take it back, and of an invite the owner and admins of the group",
        ))
    }

    /// Checks that the effect would be possible now.
    ///
    /// # Errors
    /// NOT_FOUND, FAILED_PRECONDITION, or errors of the store.
    pub(super) async fn check_effect(&self, found: &Application) -> Result<(), Error> {
        match found.purpose {
            ApplicationPurpose::Friend(user) => {
                let edge = Edge { from: found.applicant, to: user };
                self.check_allowed_by(edge, Permissions::NONE).await?;
                self.check_allowed_by(edge.reversed(), Permissions::NONE).await?;
                // The follow's write checks again, in the store.
                for edge in [edge, edge.reversed()] {
                    self.follows.check_may_follow(edge, Principal::Service, &Consistency::Cached).await?;
                }
                Ok(())
            }
            ApplicationPurpose::Join(group) => {
                self.members.check_room(MemberKey { group, user: found.applicant }).await
            }
            ApplicationPurpose::Invite(group, user) => {
                let edge = Edge { from: found.applicant, to: user };
                self.check_allowed_by(edge, Permissions::NONE).await?;
                self.check_allowed_by(edge.reversed(), Permissions::NONE).await?;
                self.members.check_room(MemberKey { group, user }).await
            }
        }
    }

    pub(super) async fn find(&self, key: ApplicationKey) -> Result<Application, Error> {
        let found = self.store.get_application(key).await.map_err(store_error)?;
        found.ok_or_else(|| Error::not_found(KIND))
    }

    /// When a user's account was created.
    async fn account(&self, user: UserId, field: &'static str) -> Result<Timestamp, Error> {
        let found = self.users.get(user, &Consistency::Cached).await;
        found.map(|found| found.value.created).map_err(|error| error.at(field))
    }

    /// Checks that `edge.from`, the applicant, has not blocked `edge.to`.
    async fn check_not_blocked(&self, edge: Edge) -> Result<(), Error> {
        if self.blocks.is_blocked(edge).await? {
            return Err(Error::new(Reason::StateForbids, "the applicant has blocked the user"));
        }
        Ok(())
    }

    /// Checks that `edge.to` has not blocked `edge.from`, and permits the request.
    async fn check_allowed_by(&self, edge: Edge, asked: Permissions) -> Result<(), Error> {
        let set = self.blocks.get(edge.reversed(), &Consistency::Cached).await?;
        let (denied, blocked) = self.blocks.denied(set.as_ref().map(|entry| &*entry.value), asked);
        if denied == 0 && !blocked {
            return Ok(());
        }
        // A block and a missing permission have the same text: no caller may learn which it is.
        Err(Error::new(Reason::StateForbids, "the other user does not allow it"))
    }

    /// Whether the principal decides for an application's group.
    async fn is_of_own_group(&self, found: &Application, principal: Principal) -> Result<bool, Error> {
        let Some(group) = found.purpose.group() else { return Ok(false) };
        match self.members.may_decide(group, principal).await {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.reason(), Reason::NotAllowed | Reason::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
