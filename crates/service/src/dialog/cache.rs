//! The namespace of dialogs in the caches.

use kith_cache::Policy;
use kith_store::Dialog;

use super::DIALOGS;
use crate::write::cache_defaults::{CacheDefaults, often_absent};

/// Share of the memory: with 256 MiB, some 25,000 dialogs.
pub const SHARES: u64 = 3;

/// Policy of the copies of dialogs. Members who never marked a message of a group have none.
#[must_use]
pub fn policy(defaults: &CacheDefaults) -> Policy<Dialog> {
    often_absent(defaults.policy(DIALOGS, SHARES, Dialog::weight))
}
