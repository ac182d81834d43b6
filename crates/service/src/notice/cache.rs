//! The namespaces of audiences, notices and readers in the caches.

use kith_cache::Policy;
use kith_store::{Audience, Notice, NoticeReader};

use super::{AUDIENCES, NOTICES, READERS};
use crate::write::cache_defaults::{CacheDefaults, often_absent};

/// Policies of the namespaces of notices.
#[derive(Clone, Debug)]
pub struct NoticePolicies {
    /// For audiences.
    pub audiences: Policy<Audience>,
    /// For notices.
    pub notices: Policy<Notice>,
    /// For readers.
    pub readers: Policy<NoticeReader>,
}

/// Policies of the copies of audiences, notices and readers.
#[must_use]
pub fn policies(defaults: &CacheDefaults) -> NoticePolicies {
    NoticePolicies {
        audiences: defaults.policy(AUDIENCES, Audience::weight),
        notices: defaults.policy(NOTICES, Notice::weight),
        readers: often_absent(defaults.policy(READERS, NoticeReader::weight)),
    }
}
