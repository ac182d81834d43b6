//! Counts how many readers have read a notice.
//!
//! A count is the sum over the reader sections. A section's count comes from the shared bitmaps; if there is
//! none, or it is not complete, a store scan counts one page with 64 notices, completes their bitmaps, and is
//! remembered for [`FRESH`]. New slots' bitmaps are complete when the change that assigned them returns.

mod new_slots;
mod repairs;
mod scan;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use kith_delivery::{ReaderBitmaps, ReaderSection};
use kith_store::{
    Audience, AudienceId, MarkedReader, NoticeReader, NoticeReaderStore, ReaderExtent, ReaderMark, Slot,
    StoreError,
};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, timeout_at},
};

use self::{repairs::BitmapRepairs, scan::ScannedCounts};
use super::{NoticesConfig, records::reader_error};
use crate::{
    error::Error,
    metric::{NOTICE_BITMAPS_MISSED, NOTICE_COUNTS, NOTICE_MARKS, count_from_zero},
};

/// Largest age of a scan's result.
const FRESH: Duration = Duration::from_secs(10);
/// Concurrent scans.
const SCANS_AT_ONCE: usize = 4;

/// One page with an audience's notices, for one reader section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct SectionPage {
    section: ReaderSection,
    page: u32,
}

/// Counts readers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ReaderCounts(Arc<ReaderCountsInner>);

#[derive(Debug)]
struct ReaderCountsInner {
    store: Arc<dyn NoticeReaderStore>,
    /// `None`: this node shares none with others.
    bitmaps: Option<Arc<dyn ReaderBitmaps>>,
    repairs: BitmapRepairs,
    scanned: Mutex<HashMap<SectionPage, Result<ScannedCounts, StoreError>>>,
    extents: Mutex<HashMap<AudienceId, (Instant, ReaderExtent)>>,
    running: Mutex<HashSet<SectionPage>>,
    ended: Notify,
    permits: Semaphore,
    /// How long a count waits for scans.
    wait: Duration,
    /// How long bitmaps are kept.
    kept: Duration,
}

/// How many readers have each bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CountedReaders {
    /// The counts in the order of the slots.
    pub(super) counts: Vec<u64>,
    /// How many readers there are.
    pub(super) registered: u64,
    /// Whether some sections are not counted.
    pub(super) incomplete: bool,
}

impl ReaderCounts {
    /// Creates it over a deployment's readers, and the bitmaps that its nodes share.
    #[must_use]
    pub fn new(
        store: Arc<dyn NoticeReaderStore>,
        bitmaps: Option<Arc<dyn ReaderBitmaps>>,
        config: &NoticesConfig,
    ) -> Self {
        count_from_zero(NOTICE_COUNTS, &["bitmap", "scan"]);
        count_from_zero(NOTICE_MARKS, &["read", "unread", "unchanged"]);
        count_from_zero(NOTICE_BITMAPS_MISSED, &[]);
        scan::count_fills_from_zero();
        Self(Arc::new(ReaderCountsInner {
            store,
            bitmaps,
            repairs: BitmapRepairs::default(),
            scanned: Mutex::default(),
            extents: Mutex::default(),
            running: Mutex::default(),
            ended: Notify::new(),
            permits: Semaphore::new(SCANS_AT_ONCE),
            wait: config.count_wait,
            kept: config.bitmaps_kept,
        }))
    }

    /// Counts the readers of an audience that have each bit, at most 10 s old.
    pub(super) async fn count(&self, audience: &Audience, slots: &[Slot]) -> Result<CountedReaders, Error> {
        let extent = self.extent(audience.id).await.map_err(reader_error)?;
        let sections: Vec<ReaderSection> = ReaderSection::below(audience.id, extent.end).collect();
        let mut table = self.of_bitmaps(&sections, slots).await;
        let missing = missing(&sections, slots, &table);
        let source = if missing.is_empty() { "bitmap" } else { "scan" };
        metrics::counter!(NOTICE_COUNTS.name, "source" => source).increment(1);
        if !missing.is_empty() {
            self.scan_all(audience, &missing).await;
            self.add_scanned(&sections, slots, &mut table).map_err(reader_error)?;
        }
        let incomplete = table.iter().flatten().any(Option::is_none);
        let sum =
            |at: usize| table.iter().filter_map(|counts| counts.get(at).copied().flatten()).sum::<u64>();
        let counts = (0..slots.len()).map(sum).collect();
        Ok(CountedReaders { counts, registered: extent.readers, incomplete })
    }

    /// Adds a written mark to the bitmaps, before this returns or soon after. `before`: the reader's known
    /// state before a [`ReaderMark::Forget`].
    pub(super) async fn marked(
        &self,
        marked: &MarkedReader,
        mark: &ReaderMark,
        before: Option<&NoticeReader>,
    ) {
        let what = match mark {
            _ if !marked.is_changed => "unchanged",
            ReaderMark::Read(_) => "read",
            ReaderMark::Unread(_) | ReaderMark::Forget(_) => "unread",
        };
        metrics::counter!(NOTICE_MARKS.name, "mark" => what).increment(1);
        let reader = &marked.reader;
        let Some(bitmaps) = &self.0.bitmaps else { return };
        let section = ReaderSection::of(reader.key.audience, reader.ordinal);
        match mark {
            ReaderMark::Read(slots) => {
                if !slots.is_empty() && bitmaps.mark(reader.ordinal, section, slots).await.is_err() {
                    self.repair_later(section, slots);
                }
            }
            ReaderMark::Unread(slots) => self.invalidate(section, slots).await,
            ReaderMark::Forget(_) => {
                let slots: Vec<Slot> = before.into_iter().flat_map(|before| before.bits.slots()).collect();
                self.invalidate(section, &slots).await;
            }
        }
    }

    /// Handles a mark with unknown outcome.
    pub(super) async fn unknown(&self, reader: &NoticeReader, mark: &ReaderMark) {
        let section = ReaderSection::of(reader.key.audience, reader.ordinal);
        self.invalidate(section, mark.slots()).await;
    }

    /// Drops bitmaps, and again after some seconds: the same reader's mark on another node may reach them in
    /// another order than it reached the store.
    async fn invalidate(&self, section: ReaderSection, slots: &[Slot]) {
        let Some(bitmaps) = self.0.bitmaps.as_ref().filter(|_| !slots.is_empty()) else { return };
        match bitmaps.invalidate(section, slots).await {
            Ok(()) => self.0.repairs.add(section, slots, repairs::DROPPED_AGAIN_AFTER),
            Err(_) => self.repair_later(section, slots),
        }
    }

    /// Handles that Redis did not answer: bitmaps are dropped as soon as it does.
    fn repair_later(&self, section: ReaderSection, slots: &[Slot]) {
        let count = u64::try_from(slots.len()).unwrap_or(u64::MAX);
        metrics::counter!(NOTICE_BITMAPS_MISSED.name).increment(count);
        self.0.repairs.add(section, slots, Duration::ZERO);
    }

    /// Drops bitmaps that could not be dropped, or must be dropped a second time. Stops when its future is
    /// dropped.
    pub(super) async fn run_repairs(&self) {
        if let Some(bitmaps) = &self.0.bitmaps {
            self.0.repairs.run(bitmaps.as_ref()).await;
        }
    }

    /// The number of readers, at most 10 s old.
    async fn extent(&self, audience: AudienceId) -> Result<ReaderExtent, StoreError> {
        let known = self.0.extents.lock().get(&audience).copied();
        if let Some((_, extent)) = known.filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(extent);
        }
        let asked = Instant::now();
        let extent = self.0.store.count_readers(audience).await?;
        self.0.extents.lock().insert(audience, (asked, extent));
        Ok(extent)
    }

    /// The counts by section and slot; `None` if no bitmap is complete.
    async fn of_bitmaps(&self, sections: &[ReaderSection], slots: &[Slot]) -> Vec<Vec<Option<u64>>> {
        let none = || vec![vec![None; slots.len()]; sections.len()];
        match &self.0.bitmaps {
            Some(bitmaps) if !sections.is_empty() => {
                bitmaps.count(sections, slots).await.unwrap_or_else(|_| none())
            }
            _ => none(),
        }
    }

    /// Scans the parts that were not scanned within the last seconds. Returns when that has ended, or after
    /// the time limit; scans continue.
    async fn scan_all(&self, audience: &Audience, parts: &BTreeSet<SectionPage>) {
        let until = Instant::now() + self.0.wait;
        for part in parts {
            let is_fresh = matches!(self.0.scanned.lock().get(part), Some(Ok(scanned)) if scanned.is_fresh());
            if !is_fresh && self.0.running.lock().insert(*part) {
                let live = audience.entries.iter().flat_map(|entry| entry.slots());
                let live = live.filter(|slot| slot / 64 == part.page).collect();
                // If it stayed, an earlier failure would be the answer until the scan has ended.
                self.0.scanned.lock().remove(part);
                tokio::spawn(self.clone().scan(*part, live));
            }
        }
        loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let is_running = parts.iter().any(|part| self.0.running.lock().contains(part));
            if !is_running || timeout_at(until, ended).await.is_err() {
                return;
            }
        }
    }

    /// Adds scan results.
    fn add_scanned(
        &self,
        sections: &[ReaderSection],
        slots: &[Slot],
        table: &mut [Vec<Option<u64>>],
    ) -> Result<(), StoreError> {
        let scanned = self.0.scanned.lock();
        for (section, counts) in sections.iter().zip(table) {
            for (slot, count) in slots.iter().zip(counts).filter(|(_, count)| count.is_none()) {
                match scanned.get(&SectionPage { section: *section, page: slot / 64 }) {
                    Some(Ok(scanned)) if scanned.is_fresh() => *count = Some(scanned.count(*slot)),
                    Some(Err(error)) => return Err(error.clone()),
                    Some(Ok(_)) | None => {}
                }
            }
        }
        Ok(())
    }
}

/// The parts to be scanned.
fn missing(sections: &[ReaderSection], slots: &[Slot], table: &[Vec<Option<u64>>]) -> BTreeSet<SectionPage> {
    let of_section = |(section, counts): (&ReaderSection, &Vec<Option<u64>>)| {
        let missing = slots.iter().zip(counts).filter(|(_, count)| count.is_none());
        missing.map(|(slot, _)| SectionPage { section: *section, page: slot / 64 }).collect::<Vec<_>>()
    };
    sections.iter().zip(table).flat_map(of_section).collect()
}

#[cfg(test)]
mod tests;
