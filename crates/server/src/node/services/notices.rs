//! Notices, as they are configured: their readers are counted by bitmaps in Redis, or without one by scans.

use std::sync::Arc;

use kith_service::{
    domain_context::DomainContext,
    notice::{NoticeRecords, ReaderCounts, cache, upkeep_job},
    user::Users,
    write::tasks::BackgroundJob,
};

use super::caches::cache_defaults;
use crate::{cluster::Cluster, config::Config};

/// The notices of a deployment, and their upkeep.
pub(super) fn notices(
    context: DomainContext<'_>,
    config: &Config,
    cluster: Option<&Cluster>,
    users: &Users,
    among: Option<&str>,
) -> (NoticeRecords, BackgroundJob) {
    let bitmaps = cluster.and_then(Cluster::reader_bitmaps);
    let counts = ReaderCounts::new(Arc::clone(&context.stores.notice_readers), bitmaps, &config.notices);
    let policies = cache::policies(&cache_defaults(config));
    let records = NoticeRecords::new(context, policies, users.clone(), counts, config.notices);
    let upkeep = upkeep_job(context, records.clone(), among);
    (records, upkeep)
}
