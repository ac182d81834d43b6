//! The cache namespace for summaries of reactions.

use kith_cache::Policy;
use kith_store::ReactionSummary;

use super::REACTIONS;
use crate::write::cache_defaults::{CacheDefaults, often_absent};

/// The policy for copies of summaries. Most documents have none.
#[must_use]
pub fn policy(defaults: &CacheDefaults) -> Policy<ReactionSummary> {
    often_absent(defaults.policy(REACTIONS, ReactionSummary::weight))
}
