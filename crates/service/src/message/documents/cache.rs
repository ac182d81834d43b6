//! The cache namespace for documents.

use kith_cache::Policy;
use kith_store::LogDocument;

use super::DOCUMENTS;
use crate::write::cache_defaults::CacheDefaults;

/// The policy for copies of documents.
#[must_use]
pub fn policy(defaults: &CacheDefaults) -> Policy<LogDocument> {
    Policy { strict: true, ..defaults.policy(DOCUMENTS, LogDocument::weight) }
}
