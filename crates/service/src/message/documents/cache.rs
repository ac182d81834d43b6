//! The namespace of documents in the caches.

use kith_cache::Policy;
use kith_store::LogDocument;

use super::DOCUMENTS;
use crate::write::cache_defaults::CacheDefaults;

/// Policy of the copies of documents.
#[must_use]
pub fn policy(defaults: &CacheDefaults) -> Policy<LogDocument> {
    Policy { strict: true, ..defaults.policy(DOCUMENTS, LogDocument::weight) }
}
