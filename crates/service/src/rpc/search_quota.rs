//! The quota of searches of a user: enough for a person, too few to try a list of addresses.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use governor::{
    DefaultKeyedRateLimiter, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock, Reference as _},
};
use kith_store::UserId;

use crate::{
    error::{Error, Reason},
    rpc::{
        call::{Call, Principal},
        rights::Scope,
    },
};

/// Users who are counted at the same time: some 10 MB.
const USERS_MAX: usize = 100_000;
/// Users who share a count if there are more than [`USERS_MAX`]: few enough to stay within memory, and enough that a
/// user who searches too much affects few.
const SHARED: i64 = 4096;
/// Period, in nanoseconds, of forgetting users who have stopped; it walks over all users.
const SWEEP_NANOS: u64 = 1_000_000_000;

/// Counts searches by acting users, on this node: one quota for each user, whatever is searched. Cheap to clone.
///
/// A search is counted before the store is asked, so that a refusal reveals nothing about results.
#[derive(Clone, Debug)]
pub struct SearchQuota {
    counted: Arc<Counted>,
}

#[derive(Debug)]
struct Counted {
    limiter: DefaultKeyedRateLimiter<i64>,
    clock: DefaultClock,
    start: <DefaultClock as governor::clock::Clock>::Instant,
    /// Since `start`.
    swept: AtomicU64,
    users_max: usize,
}

impl SearchQuota {
    /// This many at once, and the same number in a minute.
    #[must_use]
    pub fn per_minute(searches: NonZeroU32) -> Self {
        Self::with_room_for(USERS_MAX, searches)
    }

    fn with_room_for(users_max: usize, searches: NonZeroU32) -> Self {
        let limiter = RateLimiter::keyed(Quota::per_minute(searches));
        let clock = DefaultClock::default();
        let start = clock.now();
        Self { counted: Arc::new(Counted { limiter, clock, start, swept: AtomicU64::new(0), users_max }) }
    }

    /// Counts one search of users, which finds them by their addresses too: as [`Self::count`], and each caller that is not shown
    /// addresses (`user:contact`) as one user, because it could find out by searches whose they are.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when the user, or the caller, made too many.
    pub fn count_of_users(&self, call: Call) -> Result<(), Error> {
        match call.principal {
            Principal::Service if !call.rights.has(Scope::UserContact) => {
                // Ids of users are above 0, and the keys that they share are above this.
                let key = -SHARED - 1 - i64::from(call.caller.get());
                let within = self.counted.limiter.check_key(&key);
                within.map_err(|_| {
                    too_many("too many searches within a minute by a caller without the scope user:contact")
                })
            }
            principal => self.count(principal),
        }
    }

    /// Counts one search. Services are not counted: they answer for themselves.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the user made too many.
    pub fn count(&self, principal: Principal) -> Result<(), Error> {
        let Principal::User(user) = principal else { return Ok(()) };
        let within = self.counted.limiter.check_key(&self.counted.key(user));
        within.map_err(|_| too_many("too many searches by this user within a minute"))
    }
}

fn too_many(text: &'static str) -> Error {
    Error::new(Reason::TooManyTries, text)
}

impl Counted {
    /// The key of the user alone while there is room, else a shared one: every user is counted.
    fn key(&self, user: UserId) -> i64 {
        if self.limiter.len() < self.users_max {
            return user.get();
        }
        self.sweep();
        // Ids are above 0.
        if self.limiter.len() < self.users_max { user.get() } else { -(user.get() % SHARED) }
    }

    fn sweep(&self) {
        let now = self.clock.now().duration_since(self.start).as_u64();
        let swept = self.swept.load(Ordering::Relaxed);
        let due = now.saturating_sub(swept) >= SWEEP_NANOS;
        if due && self.swept.compare_exchange(swept, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.limiter.retain_recent();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(users_max: usize) -> SearchQuota {
        SearchQuota::with_room_for(users_max, NonZeroU32::new(3).unwrap())
    }

    fn user(number: i64) -> Principal {
        Principal::User(UserId::new(number).unwrap())
    }

    #[test]
    fn each_user_has_a_quota_and_services_have_none() {
        let quota = quota(10);
        for _ in 0..3 {
            quota.count(user(1)).unwrap();
        }
        assert_eq!(quota.count(user(1)).unwrap_err().reason(), Reason::TooManyTries);
        quota.count(user(2)).unwrap();
        for _ in 0..100 {
            quota.count(Principal::Service).unwrap();
        }
    }

    #[test]
    fn many_searchers_are_counted_in_bounded_memory() {
        let quota = quota(10);
        let counted = (1..=100_000).filter(|number| quota.count(user(*number)).is_ok()).count();
        let most = 10 + usize::try_from(SHARED).unwrap();
        assert!(quota.counted.limiter.len() <= most, "{} keys", quota.counted.limiter.len());
        assert!(counted <= 3 * most, "{counted} were let through");
    }
}
