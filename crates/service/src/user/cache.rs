//! The namespaces of users in the caches.

use kith_cache::Policy;
use kith_store::{User, UserAccess};

use super::{USERS, UserPolicies, access::ACCESSES};
use crate::write::cache_defaults::{CacheDefaults, often_absent};

/// Users are read far more often than groups.
const USER_SHARES: u64 = 23;
/// Read for each call of a user, and nearly always absent: with 256 MiB, some 70,000 users.
const ACCESS_SHARES: u64 = 2;
/// Share of the memory.
pub const SHARES: u64 = USER_SHARES + ACCESS_SHARES;

/// Policies of the copies of users, and of what lets them in.
#[must_use]
pub fn policies(defaults: &CacheDefaults) -> UserPolicies {
    let access = often_absent(defaults.policy(ACCESSES, ACCESS_SHARES, UserAccess::weight));
    UserPolicies {
        users: defaults.policy(USERS, USER_SHARES, User::weight),
        access: Policy { strict: true, ..access },
    }
}
