//! The cache namespaces for audiences, notices and readers.

use kith_cache::Policy;
use kith_store::{Audience, Notice, NoticeReader};

use super::{AUDIENCES, NOTICES, READERS};
use crate::write::cache_defaults::{CacheDefaults, often_absent};

/// The policies for notice namespaces.
#[derive(Clone, Debug)]
pub struct NoticePolicies {
    /// The policy for audiences.
    pub audiences: Policy<Audience>,
    /// The policy for notices.
    pub notices: Policy<Notice>,
    /// The policy for readers.
    pub readers: Policy<NoticeReader>,
}

/// The policies for copies of audiences, notices and readers.
#[must_use]
pub fn policies(defaults: &CacheDefaults) -> NoticePolicies {
    NoticePolicies {
        audiences: defaults.policy(AUDIENCES, Audience::weight),
        notices: defaults.policy(NOTICES, Notice::weight),
        readers: often_absent(defaults.policy(READERS, NoticeReader::weight)),
    }
}
