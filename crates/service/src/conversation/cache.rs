//! The cache namespace for conversations.

use kith_cache::Policy;
use kith_store::Conversation;

use super::CONVERSATIONS;
use crate::write::cache_defaults::{CacheDefaults, often_absent};

/// The policy for copies of conversations. Nearly all are absences.
#[must_use]
pub fn policy(defaults: &CacheDefaults) -> Policy<Conversation> {
    let policy = defaults.policy(CONVERSATIONS, |_| size_of::<Conversation>());
    Policy { strict: true, ..often_absent(policy) }
}
