//! Notice upkeep: removes entries that expired an hour ago, and deletes notices that expired long ago. The
//! node that holds a lease does this. Each step may be repeated, so the lease only saves work.

use std::time::Duration;

use futures::FutureExt as _;
use kith_store::{AudienceEntry, AudienceId, EXPIRED_KEPT, NoticeChange, NoticeId, Stored, Timestamp, Write};
use tokio::time::Instant;

use super::{NoticeRecords, records::notice_error};
use crate::{
    domain_context::DomainContext,
    error::{Error, Reason},
    write::{lease::Lease, removal_time::RemovalTime, rounds::Rounds, tasks::BackgroundJob},
};

const ROUNDS: Rounds = Rounds {
    lease: "notices",
    lease_lasts: Duration::from_secs(120),
    period: Duration::from_secs(60),
    failed: "expired notices could not be removed",
};
/// How many audiences, or notices, are read at a time.
const AT_ONCE: usize = 100;
/// Deadline by which a write must have begun. Once begun, it runs to its end.
const BEGUN_WITHIN: Duration = Duration::from_secs(10);

/// The job that removes expired entries and notices, and repairs counts. `node_id`: this node's id in a
/// cluster.
#[must_use]
pub fn upkeep_job(
    context: DomainContext<'_>,
    records: NoticeRecords,
    time: RemovalTime,
    node_id: Option<&str>,
) -> BackgroundJob {
    let counts = records.counts.clone();
    let repairs = async move { counts.run_repairs().await };
    let upkeep = NoticeUpkeep { records, time };
    let round = async move |_: &mut Lease| upkeep.round().await;
    BackgroundJob::new([ROUNDS.run(&context.stores.coordination, node_id, round).boxed(), repairs.boxed()])
}

#[derive(Debug)]
struct NoticeUpkeep {
    records: NoticeRecords,
    time: RemovalTime,
}

impl NoticeUpkeep {
    async fn round(&self) -> Result<(), Error> {
        let now = self.time.now().await.map_err(notice_error)?;
        let removed = self.remove_entries(now).await;
        self.delete_notices(now).await.and(removed)
    }

    async fn remove_entries(&self, now: Timestamp) -> Result<(), Error> {
        let mut after: Option<AudienceId> = None;
        loop {
            let page = self.records.store.audience_list(after, AT_ONCE).await.map_err(notice_error)?;
            let is_due =
                |entry: &AudienceEntry| entry.expire.is_some_and(|expire| expire.after(EXPIRED_KEPT) <= now);
            for audience in page.iter().filter(|audience| audience.entries.iter().any(is_due)) {
                let (records, id) = (self.records.clone(), audience.id);
                let work = async move { records.remove_expired(id, now).await.map_err(notice_error) };
                or_next(self.records.mutations.run(Instant::now() + BEGUN_WITHIN, work).await)?;
            }
            after = page.last().map(|last| last.id);
            if page.len() < AT_ONCE {
                return Ok(());
            }
        }
    }

    async fn delete_notices(&self, now: Timestamp) -> Result<(), Error> {
        let before = now.before(self.records.config.kept);
        let old = self.records.store.expired_notices(before, AT_ONCE).await.map_err(notice_error)?;
        for id in old {
            let records = self.records.clone();
            let work = async move { delete_expired(&records, id, before).await };
            or_next(self.records.mutations.run(Instant::now() + BEGUN_WITHIN, Box::pin(work)).await)?;
        }
        Ok(())
    }
}

/// Deletes a notice unless its expire time was changed after it was listed.
async fn delete_expired(records: &NoticeRecords, id: NoticeId, before: Timestamp) -> Result<(), Error> {
    let found = records.store.notices(&[id], true).await.map_err(notice_error)?.pop();
    let Some((_, Stored::Live(notice))) = found else { return Ok(()) };
    if notice.terms.expire.is_none_or(|expire| expire >= before) {
        return Ok(());
    }
    let write = Write { expected: Some(notice.version), ..Write::at(Timestamp::now()) };
    match records.change_now(id, NoticeChange::Delete(Vec::new()), write).await {
        // Another node has just deleted it, or a caller has just changed it.
        Err(error) if matches!(error.reason(), Reason::NotFound | Reason::VersionConflict) => Ok(()),
        deleted => deleted.map(drop),
    }
}

/// Passes an error on if the store is away. With any other, the next audience or notice may succeed.
fn or_next(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(error) if error.reason() != Reason::StoreUnavailable => {
            tracing::warn!(%error, "an expired notice could not be removed; the next round tries again");
            Ok(())
        }
        done => done,
    }
}
