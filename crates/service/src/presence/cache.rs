//! The cache namespace for presence.

use std::time::Duration;

use kith_cache::Policy;
use kith_presence::Distribution;

use super::{ACTIVE, active_weight};
use crate::write::cache_defaults::CacheDefaults;

/// Changes to a group's active members are published, but not a loss of presence.
const ACTIVE_AGE_MAX: Duration = Duration::from_secs(10);

/// The policy for copies of distributions.
#[must_use]
pub fn policy(defaults: &CacheDefaults) -> Policy<Distribution> {
    let policy = defaults.policy(ACTIVE, active_weight);
    Policy { age_max: Some(ACTIVE_AGE_MAX), max_stale: policy.max_stale.min(ACTIVE_AGE_MAX), ..policy }
}
