//! The cache namespaces for users.

use kith_cache::Policy;
use kith_store::{User, UserAccess};

use super::{USERS, UserPolicies, access::ACCESSES};
use crate::write::cache_defaults::{CacheDefaults, often_absent};

/// The policies for copies of users, and of what lets them in.
#[must_use]
pub fn policies(defaults: &CacheDefaults) -> UserPolicies {
    // This record is read for each user call, and is nearly always absent.
    let access = often_absent(defaults.policy(ACCESSES, UserAccess::weight));
    UserPolicies { users: defaults.policy(USERS, User::weight), access: Policy { strict: true, ..access } }
}
