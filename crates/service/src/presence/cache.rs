//! The namespace of presence in the caches.

use std::time::Duration;

use kith_cache::Policy;
use kith_presence::Distribution;

use super::{ACTIVE, active_weight};
use crate::write::cache_defaults::CacheDefaults;

/// Of the memory. How many of each group are online: some 20,000 groups.
pub const SHARES: u64 = 1;

/// The active members of a group are published when they change, but not where presence is lost.
const ACTIVE_AGE_MAX: Duration = Duration::from_secs(10);

/// How copies of how many of a group are online behave.
#[must_use]
pub fn policy(defaults: &CacheDefaults) -> Policy<Distribution> {
    let policy = defaults.policy(ACTIVE, SHARES, active_weight);
    Policy { age_max: Some(ACTIVE_AGE_MAX), max_stale: policy.max_stale.min(ACTIVE_AGE_MAX), ..policy }
}
