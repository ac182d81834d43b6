//! The namespace of dialogs in the caches.

use kith_cache::Policy;
use kith_store::Dialog;

use super::DIALOGS;
use crate::write::cache_defaults::{CacheDefaults, often_absent};

/// The policy for copies of dialogs. Members who never marked a message in a group have no dialog there.
#[must_use]
pub fn policy(defaults: &CacheDefaults) -> Policy<Dialog> {
    often_absent(defaults.policy(DIALOGS, Dialog::weight))
}
