//! The namespace of conversations in the caches.

use kith_cache::Policy;
use kith_store::Conversation;

use super::CONVERSATIONS;
use crate::write::cache_defaults::{CacheDefaults, often_absent};

/// Share of the memory: with 256 MiB, some 15,000 conversations. Nearly all of them are absences.
pub const SHARES: u64 = 1;

/// Policy of the copies of conversations.
#[must_use]
pub fn policy(defaults: &CacheDefaults) -> Policy<Conversation> {
    let policy = defaults.policy(CONVERSATIONS, SHARES, |_| size_of::<Conversation>());
    Policy { strict: true, ..often_absent(policy) }
}
