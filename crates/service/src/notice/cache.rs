//! The namespaces of audiences, notices and readers in the caches.

use kith_cache::Policy;
use kith_store::{Audience, Notice, NoticeReader};

use super::{AUDIENCES, NOTICES, READERS};
use crate::write::cache_defaults::{CacheDefaults, often_absent};

const AUDIENCE_SHARES: u64 = 1;
const NOTICE_SHARES: u64 = 3;
/// About 50,000 readers in a memory of 256 MiB.
const READER_SHARES: u64 = 5;
/// Shares of the memory that the namespaces of notices have together.
pub const SHARES: u64 = AUDIENCE_SHARES + NOTICE_SHARES + READER_SHARES;

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
        audiences: defaults.policy(AUDIENCES, AUDIENCE_SHARES, Audience::weight),
        notices: defaults.policy(NOTICES, NOTICE_SHARES, Notice::weight),
        readers: often_absent(defaults.policy(READERS, READER_SHARES, NoticeReader::weight)),
    }
}
