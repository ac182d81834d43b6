//! The rounds in which all totals are compared.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use kith_store::{AudienceId, Timestamp};
use tokio::task::yield_now;

use super::{AudienceView, LiveTotals, Watch};
use crate::{metric::NOTICE_WATCH_READS, write::rounds::every};

/// The time between rounds.
const PERIOD: Duration = Duration::from_secs(1);
/// Most readers that a round reads because they are not in memory. While memory may not be used, as without
/// Redis, these are all readers: the others follow in later rounds.
pub(super) const READ_MAX: usize = 1_000;
/// How many readers a read has.
const READ_AT_ONCE: usize = 250;
/// Comparisons after which other tasks may run.
const COMPARED_AT_ONCE: usize = 500;

/// A watch and its number.
type NumberedWatch = (u64, Arc<Watch>);

pub(super) struct TotalsRounds {
    live: LiveTotals,
    views: HashMap<AudienceId, AudienceView>,
    /// The watch whose reader was read last.
    read_up_to: u64,
}

impl TotalsRounds {
    pub(super) fn new(live: LiveTotals) -> Self {
        Self { live, views: HashMap::new(), read_up_to: 0 }
    }

    pub(super) async fn run(mut self) {
        every(PERIOD, async move || self.round(Timestamp::now()).await).await;
    }

    pub(super) async fn round(&mut self, now: Timestamp) {
        let watches = self.live.watches();
        self.refresh_views(&watches, now).await;
        let missing = self.compare_in_memory(watches).await;
        self.read(missing).await;
    }

    /// Leaves an audience's view unchanged if the audience cannot be read.
    async fn refresh_views(&mut self, watches: &[NumberedWatch], now: Timestamp) {
        let ids: BTreeSet<AudienceId> = watches.iter().map(|(_, watch)| watch.key.audience).collect();
        self.views.retain(|id, _| ids.contains(id));
        let ids: Vec<_> = ids.into_iter().collect();
        let found = self.live.0.records.audiences(&ids).await;
        for (id, found) in ids.into_iter().zip(found) {
            if let Ok(Some(audience)) = found {
                let view =
                    self.views.entry(id).or_insert_with(|| AudienceView::new(Arc::clone(&audience), now));
                view.update(&audience, now);
            }
        }
    }

    /// Returns the watches whose readers memory does not have.
    async fn compare_in_memory(&self, watches: Vec<NumberedWatch>) -> Vec<NumberedWatch> {
        let mut missing = Vec::new();
        for (at, (number, watch)) in watches.into_iter().enumerate() {
            if at % COMPARED_AT_ONCE == COMPARED_AT_ONCE - 1 {
                yield_now().await;
            }
            match (self.views.get(&watch.key.audience), self.live.0.records.in_memory(&watch.key)) {
                (Some(view), Some(reader)) => watch.compare(view, reader.as_deref()),
                (Some(_), None) => missing.push((number, watch)),
                (None, _) => {}
            }
        }
        missing
    }

    /// Watches that have waited longest come first.
    async fn read(&mut self, mut missing: Vec<NumberedWatch>) {
        let first = missing.partition_point(|(number, _)| *number <= self.read_up_to);
        missing.rotate_left(first);
        missing.truncate(READ_MAX);
        for part in missing.chunks(READ_AT_ONCE) {
            let keys: Vec<_> = part.iter().map(|(_, watch)| watch.key).collect();
            metrics::counter!(NOTICE_WATCH_READS.name)
                .increment(u64::try_from(keys.len()).unwrap_or_default());
            let found = self.live.0.records.readers(&keys).await;
            for ((number, watch), found) in part.iter().zip(found) {
                self.read_up_to = *number;
                if let (Ok(reader), Some(view)) = (found, self.views.get(&watch.key.audience)) {
                    watch.compare(view, reader.as_deref());
                }
            }
        }
    }
}
