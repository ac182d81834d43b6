//! The namespaces of users in the caches.

use kith_cache::Policy;
use kith_store::{User, UserAccess};

use super::{USERS, UserPolicies, access::ACCESSES};
use crate::write::cache_defaults::{CacheDefaults, often_absent};

/// Policies of the copies of users, and of what lets them in.
#[must_use]
pub fn policies(defaults: &CacheDefaults) -> UserPolicies {
    // Read for each call of a user, and nearly always absent.
    let access = often_absent(defaults.policy(ACCESSES, UserAccess::weight));
    UserPolicies { users: defaults.policy(USERS, User::weight), access: Policy { strict: true, ..access } }
}
