//! Notices, as configured: their readers are counted by bitmaps in Redis, or without Redis by scans.

use std::sync::Arc;

use kith_service::{
    notice::{NoticeRecords, ReaderCounts, cache, upkeep_job},
    user::Users,
    write::tasks::BackgroundJob,
};

use super::{Assembly, caches::cache_defaults};
use crate::cluster::Cluster;

/// A deployment's notices, and their upkeep.
pub(super) fn notices(parts: Assembly<'_>, users: &Users) -> (NoticeRecords, BackgroundJob) {
    let Assembly { context, config, .. } = parts;
    let bitmaps = parts.cluster.and_then(Cluster::reader_bitmaps);
    let counts = ReaderCounts::new(Arc::clone(&context.stores.notice_readers), bitmaps, &config.notices);
    let policies = cache::policies(&cache_defaults(config));
    let records = NoticeRecords::new(context, policies, users.clone(), counts, config.notices);
    let upkeep = upkeep_job(context, records.clone(), parts.removal_time.clone(), parts.among());
    (records, upkeep)
}
