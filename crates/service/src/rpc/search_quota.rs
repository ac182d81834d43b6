//! A user's search quota: enough for a person, too little to try a list of addresses.

use crate::{
    error::{Error, Reason},
    rpc::{
        call::{Call, Principal},
        rights::Scope,
        user_quota::{QuotaKind, QuotaSubject, UserQuota},
    },
};

/// Counts searches by acting users, also users for whom a service calls, on this node: one quota for each
/// user, whatever is searched. Cheap to clone. Memory and a full table are as in [`UserQuota`].
///
/// A search is counted before the store is asked, so that a refusal reveals nothing about results.
#[derive(Clone, Debug)]
pub struct SearchQuota(UserQuota);

impl SearchQuota {
    /// This many at once, and the same number in a minute.
    #[must_use]
    pub fn per_minute(searches: u32) -> Self {
        Self(UserQuota::new(QuotaKind::Searches, searches))
    }

    /// Counts one user search, which finds users by their addresses too: like [`Self::count`], but counts
    /// each caller that is not shown addresses (`user:contact`) as one user, because it could find out by
    /// searches whose they are.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when the user, or the caller, made too many.
    pub fn count_of_users(&self, call: Call) -> Result<(), Error> {
        match call.principal {
            Principal::Service if !call.rights.has(Scope::UserContact) => self.take(
                QuotaSubject::Caller(call.caller),
                "too many searches within a minute by a caller without the scope user:contact",
            ),
            principal => self.count(principal),
        }
    }

    /// Counts one search. Services are not counted: they answer for themselves.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the user made too many.
    pub fn count(&self, principal: Principal) -> Result<(), Error> {
        let Principal::User(user) = principal else { return Ok(()) };
        self.take(QuotaSubject::User(user), "too many searches by this user within a minute")
    }

    fn take(&self, subject: QuotaSubject, text: &'static str) -> Result<(), Error> {
        let within = self.0.take(subject, 1);
        within.map(drop).map_err(|_| Error::new(Reason::TooManyTries, text))
    }
}

#[cfg(test)]
mod tests {
    use kith_store::UserId;
    use tokio::time::Instant;

    use super::*;
    use crate::rpc::rights::Rights;

    fn user(number: i64) -> Principal {
        Principal::User(UserId::new(number).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn each_user_has_a_quota_and_services_have_none() {
        let quota = SearchQuota::per_minute(3);
        for _ in 0..3 {
            quota.count(user(1)).unwrap();
        }
        assert_eq!(quota.count(user(1)).unwrap_err().reason(), Reason::TooManyTries);
        quota.count(user(2)).unwrap();
        for _ in 0..100 {
            quota.count(Principal::Service).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn caller_without_contacts_counts_as_one_user() {
        let quota = SearchQuota::per_minute(3);
        let with = Call::internal(Instant::now());
        let without = Call { rights: Rights::NONE, ..with };
        for _ in 0..3 {
            quota.count_of_users(without).unwrap();
        }
        assert_eq!(quota.count_of_users(without).unwrap_err().reason(), Reason::TooManyTries);
        for _ in 0..100 {
            quota.count_of_users(with).unwrap();
            quota.count(Principal::Service).unwrap();
        }
    }
}
