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
