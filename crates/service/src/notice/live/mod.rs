//! Totals on streams: users' read counts in audiences, compared once a second.
//!
//! A round reads each watched audience once, and each reader from memory: this node's marks are there, and
//! other nodes' broadcasts drop the copy. Only readers that are not in memory are read from below, at most
//! 1,000 in a round. Totals are computed again if a version has changed, or a publish or expire time has
//! passed.

mod audience_view;
mod rounds;
mod watch;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use kith_cache::Consistency;
use kith_store::{Audience, AudienceId, NoticeReader, NoticeTotals, ReaderId, ReaderKey, Timestamp, UserId};
use parking_lot::Mutex;

use self::{audience_view::AudienceView, rounds::TotalsRounds, watch::Watch};
use super::{AUDIENCES, NoticeRecords, READERS};
use crate::{
    error::{Error, valid},
    metric::{NOTICE_WATCH_READS, NOTICE_WATCHES, count_from_zero},
};

/// A user's totals in an audience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AudienceTotals {
    pub(crate) audience: AudienceId,
    pub(crate) totals: NoticeTotals,
}

/// A listener for changed totals. It must not wait.
pub(crate) trait TotalsListener: fmt::Debug + Send + Sync {
    fn changed(&self, totals: AudienceTotals);
}

/// Totals for users who receive on this node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LiveTotals(Arc<LiveTotalsInner>);

#[derive(Debug)]
struct LiveTotalsInner {
    records: Arc<dyn TotalsSource>,
    watches: Mutex<BTreeMap<u64, Arc<Watch>>>,
    next: AtomicU64,
}

/// One stream's watches; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct TotalsWatches {
    inner: Arc<LiveTotalsInner>,
    numbers: Vec<u64>,
}

/// Reads audiences and readers.
#[async_trait]
trait TotalsSource: fmt::Debug + Send + Sync {
    /// Reads audiences, in the order of the ids; `None`: there is none.
    async fn audiences(&self, ids: &[AudienceId]) -> Vec<Result<Option<Arc<Audience>>, Error>>;

    /// Reads readers, in the order of the keys; `None`: it is not registered.
    async fn readers(&self, keys: &[ReaderKey]) -> Vec<Result<Option<Arc<NoticeReader>>, Error>>;

    /// A reader in memory; `None`: not in memory.
    fn in_memory(&self, key: &ReaderKey) -> Option<Option<Arc<NoticeReader>>>;
}

impl LiveTotals {
    /// Creates it over a deployment's notices. Notifies no listener before `Self::run`.
    #[must_use]
    pub fn new(records: NoticeRecords) -> Self {
        Self::over(Arc::new(records))
    }

    fn over(records: Arc<dyn TotalsSource>) -> Self {
        metrics::gauge!(NOTICE_WATCHES.name).set(0.0);
        count_from_zero(NOTICE_WATCH_READS, &[]);
        Self(Arc::new(LiveTotalsInner { records, watches: Mutex::default(), next: AtomicU64::new(0) }))
    }

    /// Watches a user's totals in some audiences, and returns their present values. `created`: the user's
    /// creation.
    ///
    /// # Errors
    /// NOT_FOUND, INVALID_ARGUMENT if an audience's readers are not users, or errors of the store.
    pub(crate) async fn watch(
        &self,
        user: UserId,
        created: Timestamp,
        audiences: &[AudienceId],
        listener: Arc<dyn TotalsListener>,
    ) -> Result<(TotalsWatches, Vec<AudienceTotals>), Error> {
        let mut watching = TotalsWatches { inner: Arc::clone(&self.0), numbers: Vec::new() };
        let reader = valid("user_id", ReaderId::new(user.get()))?;
        let keys: Vec<_> =
            audiences.iter().map(|audience| ReaderKey { audience: *audience, reader }).collect();
        let (views, readers) = (self.views(audiences).await?, self.0.records.readers(&keys).await);
        let mut totals = Vec::with_capacity(keys.len());
        for ((key, view), reader) in keys.into_iter().zip(views).zip(readers) {
            let watch = Watch::new(key, created, Arc::clone(&listener), &view, reader?.as_deref());
            totals.push(watch.totals());
            watching.add(watch);
        }
        Ok((watching, totals))
    }

    async fn views(&self, audiences: &[AudienceId]) -> Result<Vec<AudienceView>, Error> {
        let mut views = Vec::with_capacity(audiences.len());
        for found in self.0.records.audiences(audiences).await {
            let audience = found?.ok_or_else(|| Error::not_found(AUDIENCES))?;
            if !audience.of_users {
                return Err(Error::invalid("notice_audiences", "must be audiences with of_users"));
            }
            views.push(AudienceView::new(audience, Timestamp::now()));
        }
        Ok(views)
    }

    /// Notifies listeners. Stops when its future is dropped.
    pub(crate) async fn run(self) {
        TotalsRounds::new(self).run().await;
    }

    /// All watches, by number.
    fn watches(&self) -> Vec<(u64, Arc<Watch>)> {
        self.0.watches.lock().iter().map(|(number, watch)| (*number, Arc::clone(watch))).collect()
    }
}

impl TotalsWatches {
    fn add(&mut self, watch: Watch) {
        let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
        self.inner.watches.lock().insert(number, Arc::new(watch));
        self.numbers.push(number);
        metrics::gauge!(NOTICE_WATCHES.name).increment(1.0);
    }
}

impl Drop for TotalsWatches {
    fn drop(&mut self) {
        let mut watches = self.inner.watches.lock();
        for number in &self.numbers {
            watches.remove(number);
            metrics::gauge!(NOTICE_WATCHES.name).decrement(1.0);
        }
    }
}

#[async_trait]
impl TotalsSource for NoticeRecords {
    async fn audiences(&self, ids: &[AudienceId]) -> Vec<Result<Option<Arc<Audience>>, Error>> {
        let found = self.audiences.get_many(ids, &Consistency::Cached).await.into_iter();
        let value = |found: Result<Option<kith_cache::Entry<_>>, _>| {
            found.map(|entry| entry.map(|entry| entry.value)).map_err(|error| Error::cache(AUDIENCES, &error))
        };
        found.map(value).collect()
    }

    async fn readers(&self, keys: &[ReaderKey]) -> Vec<Result<Option<Arc<NoticeReader>>, Error>> {
        let found = self.readers.get_many(keys, &Consistency::Cached).await.into_iter();
        let value = |found: Result<Option<kith_cache::Entry<_>>, _>| {
            found.map(|entry| entry.map(|entry| entry.value)).map_err(|error| Error::cache(READERS, &error))
        };
        found.map(value).collect()
    }

    fn in_memory(&self, key: &ReaderKey) -> Option<Option<Arc<NoticeReader>>> {
        self.readers.peek_known(key).map(|known| known.map(|entry| entry.value))
    }
}

#[cfg(test)]
mod tests;
