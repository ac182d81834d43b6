//! The namespace of users in the caches.

use kith_cache::Policy;
use kith_store::User;

use super::USERS;
use crate::write::cache_defaults::CacheDefaults;

/// Share of the memory. Users are read far more often than groups.
pub const SHARES: u64 = 23;

/// Policies of the copies of users.
#[must_use]
pub fn policy(defaults: &CacheDefaults) -> Policy<User> {
    defaults.policy(USERS, SHARES, User::weight)
}
