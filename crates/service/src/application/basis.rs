//! Application preconditions: read at creation, and compared at acceptance.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_cache::Consistency;
use kith_store::{
    Application, ApplicationList, ApplicationPurpose, ApplicationRefusal, ApplicationState,
    ListedApplication, MemberKey, Receiver, StoreError, Timestamp, UserId,
};

use super::{Applications, applications::store_error};
use crate::{error::Error, rpc::call::Principal, user::account_begins};

/// How many of a page's applications are checked together.
const AT_ONCE: usize = 16;

impl Applications {
    /// Checks in the store that an application's preconditions still hold. Otherwise closes it.
    ///
    /// # Errors
    /// FAILED_PRECONDITION with the state `closed`, or errors of the store.
    pub(super) async fn check_basis(&self, found: &Application) -> Result<(), Error> {
        if self.basis_holds(found).await? {
            return Ok(());
        }
        self.closer.close(found).await?;
        let refusal = ApplicationRefusal::Decided(ApplicationState::Closed, None);
        Err(store_error(StoreError::Application(refusal)))
    }

    /// Returns the application after its preconditions were checked in the store: closed if they have ended.
    pub(super) async fn recheck(&self, found: Application) -> Result<Application, Error> {
        if found.state != ApplicationState::Pending || self.basis_holds(&found).await? {
            return Ok(found);
        }
        self.closer.close(&found).await?;
        self.find(found.key()).await
    }

    /// Like `recheck`, but for a page. For a group, drops applications to an earlier group with the same id.
    pub(super) async fn recheck_list(
        &self,
        list: ApplicationList,
        mut page: Vec<ListedApplication>,
    ) -> Result<Vec<ListedApplication>, Error> {
        if let ApplicationList::Group(group) = list {
            let created = self.members.group_created(group, &Consistency::Cached).await?;
            page.retain(|listed| {
                let noted = listed.application.basis.and_then(|basis| basis.group);
                noted.is_none_or(|noted| Some(noted.created) == created)
            });
        }
        let checks = page.into_iter().map(|listed| self.recheck_listed(listed));
        stream::iter(checks).buffered(AT_ONCE).try_collect().await
    }

    /// The store is read only if memory shows that something has ended.
    async fn recheck_listed(&self, listed: ListedApplication) -> Result<ListedApplication, Error> {
        let found = &listed.application;
        if found.state != ApplicationState::Pending || self.basis_holds_cached(found).await? {
            return Ok(listed);
        }
        let application = self.recheck(listed.application).await?;
        Ok(ListedApplication { application, ..listed })
    }

    /// Whether accounts and group are still those of the application's time.
    pub(super) async fn parties_unchanged(
        &self,
        found: &Application,
        consistency: &Consistency,
    ) -> Result<bool, Error> {
        let basis = found.basis.as_ref();
        let applicant = self.users.created(found.applicant, consistency).await?;
        if !is_same(applicant, basis.map(|basis| basis.applicant), found) {
            return Ok(false);
        }
        if let Receiver::User(user) = found.purpose.receiver() {
            let user = self.users.created(user, consistency).await?;
            if !is_same(user, basis.and_then(|basis| basis.user), found) {
                return Ok(false);
            }
        }
        let Some(group) = found.purpose.group() else { return Ok(true) };
        let created = self.members.group_created(group, consistency).await?;
        let noted = basis.and_then(|basis| basis.group);
        Ok(created.is_some_and(|created| noted.is_none_or(|noted| noted.created == created)))
    }

    /// When applications and log entries begin to belong to a user's present account.
    pub(super) async fn account_begins(&self, user: UserId) -> Result<Timestamp, Error> {
        let created = self.users.created(user, &Consistency::Cached).await?;
        Ok(created.map_or(Timestamp(i64::MIN), account_begins))
    }

    async fn basis_holds(&self, found: &Application) -> Result<bool, Error> {
        if !self.parties_unchanged(found, &Consistency::Strong).await? {
            return Ok(false);
        }
        let Some(key) = membership(found) else { return Ok(true) };
        let since = found.basis.and_then(|basis| basis.group).map(|group| group.roster);
        if self.members.was_member_since(key, since).await? {
            return Ok(false);
        }
        self.may_still_invite(found).await
    }

    async fn basis_holds_cached(&self, found: &Application) -> Result<bool, Error> {
        if !self.parties_unchanged(found, &Consistency::Cached).await? {
            return Ok(false);
        }
        let Some(key) = membership(found) else { return Ok(true) };
        Ok(!self.members.is_member(key).await? && self.may_still_invite(found).await?)
    }

    /// Whether the applicant may still invite, if its role made the invite possible.
    async fn may_still_invite(&self, found: &Application) -> Result<bool, Error> {
        match found.purpose {
            ApplicationPurpose::Invite(group, _) if found.basis.is_some_and(|basis| basis.by_role) => {
                self.members.is_inviter(group, Principal::User(found.applicant)).await
            }
            ApplicationPurpose::Friend(_) | ApplicationPurpose::Join(_) | ApplicationPurpose::Invite(..) => {
                Ok(true)
            }
        }
    }
}

const fn membership(found: &Application) -> Option<MemberKey> {
    match found.purpose {
        ApplicationPurpose::Friend(_) => None,
        ApplicationPurpose::Join(group) => Some(MemberKey { group, user: found.applicant }),
        ApplicationPurpose::Invite(group, user) => Some(MemberKey { group, user }),
    }
}

/// Whether an account is the recorded account; without a record: whether it is old enough.
fn is_same(account: Option<Timestamp>, noted: Option<Timestamp>, found: &Application) -> bool {
    account.is_some_and(|created| match noted {
        Some(noted) => noted == created,
        None => account_begins(created) <= found.created,
    })
}
