//! The namespace of dialogs in the caches.

use kith_cache::Policy;
use kith_store::Dialog;

use super::DIALOGS;
use crate::write::cache_defaults::{CacheDefaults, often_absent};

/// Policy of the copies of dialogs. Members who never marked a message of a group have none.
#[must_use]
pub fn policy(defaults: &CacheDefaults) -> Policy<Dialog> {
    often_absent(defaults.policy(DIALOGS, Dialog::weight))
}
