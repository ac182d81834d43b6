//! The namespace of documents in the caches.

use kith_cache::Policy;
use kith_store::LogDocument;

use super::DOCUMENTS;
use crate::write::cache_defaults::CacheDefaults;

/// Share of the memory: with 256 MiB, some 1,500 documents of 100 short messages.
pub const SHARES: u64 = 12;

/// Policy of the copies of documents.
#[must_use]
pub fn policy(defaults: &CacheDefaults) -> Policy<LogDocument> {
    Policy { strict: true, ..defaults.policy(DOCUMENTS, SHARES, LogDocument::weight) }
}
