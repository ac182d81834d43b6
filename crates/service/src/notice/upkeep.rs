//! Upkeep of notices: entries that expired an hour ago are removed, and notices that expired long ago are deleted. One
//! node of several does it, by a lease; each step may be done twice, so the lease only saves work.

use std::time::Duration;

use kith_store::{AudienceEntry, AudienceId, EXPIRED_KEPT, NoticeChange, Timestamp, Write};
use tokio::time::{Instant, sleep};

use super::{NoticeRecords, records::notice_error};
use crate::{
    domain_context::DomainContext,
    error::{Error, Reason},
    write::{lease::Lease, tasks::Tasks},
};

/// Approximate period of rounds.
const PERIOD: Duration = Duration::from_secs(60);
/// Name of the lease.
const LEASE: &str = "notices";
/// A few times as long as a round takes.
const LEASE_LASTS: Duration = Duration::from_secs(120);
/// Audiences, and notices, of one read.
const AT_ONCE: usize = 100;
/// Deadline for the begin of a step of the store, which begins at once and runs to its end.
const BEGUN_WITHIN: Duration = Duration::from_secs(10);

/// Removes expired entries and notices, in the background.
#[derive(Debug)]
pub struct NoticeUpkeep {
    rounds: NoticeUpkeepRounds,
    task: Tasks,
}

impl NoticeUpkeep {
    /// Creates it without starting it. `among`: the id of this node, if there are others.
    #[must_use]
    pub fn new(context: DomainContext<'_>, records: NoticeRecords, among: Option<&str>) -> Self {
        let lease = Lease::new(&context.stores.coordination, LEASE, among, LEASE_LASTS);
        Self { rounds: NoticeUpkeepRounds { records, lease }, task: Tasks::default() }
    }

    /// Starts it, once.
    pub fn start(&self) {
        let (rounds, repairs) = (self.rounds.clone(), self.rounds.records.counts.clone());
        self.task.spawn_first(async move {
            tokio::join!(rounds.run(), repairs.run_repairs());
        });
    }

    /// Stops it. A write that is in progress runs to its end.
    pub async fn stop(&self) {
        self.task.end().await;
    }
}

#[derive(Clone, Debug)]
struct NoticeUpkeepRounds {
    records: NoticeRecords,
    lease: Lease,
}

impl NoticeUpkeepRounds {
    async fn run(mut self) {
        loop {
            if self.lease.is_held().await.unwrap_or(false)
                && let Err(error) = self.round().await
            {
                tracing::warn!(%error, "expired notices could not be removed; it is tried again");
            }
            sleep(PERIOD.mul_f64(rand::random_range(0.75..1.25))).await;
        }
    }

    async fn round(&self) -> Result<(), Error> {
        self.remove_entries().await?;
        self.delete_notices().await
    }

    async fn remove_entries(&self) -> Result<(), Error> {
        let (now, mut after): (_, Option<AudienceId>) = (Timestamp::now(), None);
        loop {
            let some = self.records.store.audience_list(after, AT_ONCE).await.map_err(notice_error)?;
            let is_over =
                |entry: &AudienceEntry| entry.expire.is_some_and(|expire| expire.after(EXPIRED_KEPT) <= now);
            for audience in some.iter().filter(|audience| audience.entries.iter().any(is_over)) {
                let (records, id) = (self.records.clone(), audience.id);
                let work = async move { records.remove_expired(id).await.map_err(notice_error) };
                self.records.mutations.run(Instant::now() + BEGUN_WITHIN, work).await?;
            }
            after = some.last().map(|last| last.id);
            if some.len() < AT_ONCE {
                return Ok(());
            }
        }
    }

    async fn delete_notices(&self) -> Result<(), Error> {
        let kept = i64::try_from(self.records.config.kept.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp(Timestamp::now().0.saturating_sub(kept));
        let old = self.records.store.expired_notices(before, AT_ONCE).await.map_err(notice_error)?;
        for id in old {
            let records = self.records.clone();
            let work = async move {
                let write = Write::at(Timestamp::now());
                records.change_now(id, NoticeChange::Delete(Vec::new()), write).await.map(drop)
            };
            match self.records.mutations.run(Instant::now() + BEGUN_WITHIN, Box::pin(work)).await {
                // Another node has just deleted it.
                Err(error) if error.reason() == Reason::NotFound => {}
                deleted => deleted?,
            }
        }
        Ok(())
    }
}
