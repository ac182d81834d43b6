//! Tests of reader counts, over a store and bitmaps that can be slow or unavailable.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures::future::join_all;
use kith_cache::remote::SharedError;
use kith_delivery::{BitmapFill, FillTicket, SectionBits};
use kith_store::{
    AudienceEntry, ChangedAudience, NoticeId, Outcome, ReadBits, ReaderId, ReaderKey, ReaderOrdinal,
    ScannedReader, Text, Timestamp, Version,
};
use tokio::time::advance;

use super::*;
use crate::sample::unavailable;

/// Readers 1 to 5; those below 4 have bit 3.
#[derive(Debug)]
struct Readers {
    /// A permit for each scan.
    gate: Semaphore,
    scans: AtomicUsize,
    is_away: AtomicBool,
}

fn reader(id: i64, slots: &[Slot]) -> NoticeReader {
    NoticeReader {
        key: ReaderKey { audience: audience().id, reader: ReaderId::new(id).unwrap() },
        version: Version::FIRST,
        ordinal: u32::try_from(id - 1).unwrap(),
        since: Timestamp(0),
        bits: ReadBits::default().with(slots),
    }
}

fn changed(id: i64, slots: &[Slot]) -> MarkedReader {
    MarkedReader { reader: reader(id, slots), is_changed: true }
}

fn audience() -> Audience {
    let entry = AudienceEntry {
        notice: NoticeId::new(1).unwrap(),
        slot: 3,
        confirm_slot: None,
        publish: Timestamp(0),
        expire: None,
        pinned: false,
        for_newcomers: false,
    };
    Audience {
        id: AudienceId::new(1).unwrap(),
        version: Version::FIRST,
        name: Text::default(),
        of_users: false,
        created: Timestamp(0),
        next_slot: 4,
        entries: vec![entry],
    }
}

#[async_trait]
impl NoticeReaderStore for Readers {
    async fn readers(&self, _keys: &[ReaderKey], _strong: bool) -> Result<Vec<NoticeReader>, StoreError> {
        Ok(Vec::new())
    }

    async fn register_readers(
        &self,
        _audience: AudienceId,
        _readers: &[(ReaderId, Timestamp)],
        _most: ReaderOrdinal,
    ) -> Result<Vec<NoticeReader>, StoreError> {
        Ok(Vec::new())
    }

    async fn mark_reader(
        &self,
        _key: ReaderKey,
        _mark: ReaderMark,
        _dead_pages: &[u32],
    ) -> Result<Option<MarkedReader>, StoreError> {
        Ok(None)
    }

    async fn scan_readers(
        &self,
        _audience: AudienceId,
        from: ReaderOrdinal,
        end: ReaderOrdinal,
        page: u32,
        limit: usize,
    ) -> Result<Vec<ScannedReader>, StoreError> {
        self.gate.acquire().await.unwrap().forget();
        self.scans.fetch_add(1, Ordering::AcqRel);
        if self.is_away.load(Ordering::Acquire) {
            return Err(unavailable(Outcome::NotApplied));
        }
        let all = (1..=5).map(|id| reader(id, if id < 4 { &[3] } else { &[] }));
        let some = all.filter(|reader| (from..end).contains(&reader.ordinal)).take(limit);
        let scanned = some.map(|reader| ScannedReader {
            ordinal: reader.ordinal,
            reader: reader.key.reader,
            since: reader.since,
            word: reader.bits.word(page),
        });
        Ok(scanned.collect())
    }

    async fn count_readers(&self, _audience: AudienceId) -> Result<ReaderExtent, StoreError> {
        Ok(ReaderExtent { readers: 5, end: 5 })
    }
}

/// Bitmaps that may be unavailable. Records the calls.
#[derive(Debug, Default)]
struct Bitmaps {
    is_away: AtomicBool,
    complete: Mutex<BTreeMap<Slot, u64>>,
    /// How often bitmaps were dropped: the generation.
    dropped: AtomicUsize,
}

impl Bitmaps {
    fn generation(&self) -> i64 {
        i64::try_from(self.dropped.load(Ordering::Acquire)).unwrap()
    }

    fn answer(&self) -> Result<(), SharedError> {
        if self.is_away.load(Ordering::Acquire) { Err(SharedError::Unavailable) } else { Ok(()) }
    }
}

#[async_trait]
impl ReaderBitmaps for Bitmaps {
    async fn mark(
        &self,
        _reader: ReaderOrdinal,
        _section: ReaderSection,
        slots: &[Slot],
    ) -> Result<(), SharedError> {
        self.answer()?;
        let mut complete = self.complete.lock();
        // An incomplete bitmap is not counted.
        for slot in slots {
            complete.entry(*slot).and_modify(|count| *count += 1);
        }
        Ok(())
    }

    async fn invalidate(&self, _section: ReaderSection, slots: &[Slot]) -> Result<(), SharedError> {
        self.answer()?;
        self.dropped.fetch_add(1, Ordering::AcqRel);
        let mut complete = self.complete.lock();
        complete.retain(|slot, _| !slots.contains(slot));
        Ok(())
    }

    async fn count(
        &self,
        sections: &[ReaderSection],
        slots: &[Slot],
    ) -> Result<Vec<Vec<Option<u64>>>, SharedError> {
        self.answer()?;
        let complete = self.complete.lock();
        let counts: Vec<Option<u64>> = slots.iter().map(|slot| complete.get(slot).copied()).collect();
        Ok(vec![counts; sections.len()])
    }

    async fn begin_fill(&self, _section: ReaderSection) -> Result<FillTicket, SharedError> {
        self.answer()?;
        Ok(FillTicket { generation: self.generation(), began_ms: 0, epoch: 1 })
    }

    async fn fill(
        &self,
        _section: ReaderSection,
        ticket: &FillTicket,
        bitmaps: Vec<(Slot, SectionBits)>,
        _kept: Duration,
    ) -> Result<Vec<BitmapFill>, SharedError> {
        self.answer()?;
        if ticket.generation != self.generation() {
            return Ok(vec![BitmapFill::Changed; bitmaps.len()]);
        }
        // Three of these readers have the live slot's bit.
        let count = |bits: &SectionBits| if *bits == SectionBits::default() { 0 } else { 3 };
        let counts: Vec<_> = bitmaps.iter().map(|(slot, bits)| (*slot, count(bits))).collect();
        self.complete.lock().extend(counts.iter().copied());
        Ok(counts.into_iter().map(|(_, count)| BitmapFill::Filled(count)).collect())
    }
}

struct CountsFixture {
    counts: ReaderCounts,
    store: Arc<Readers>,
    bitmaps: Arc<Bitmaps>,
}

impl CountsFixture {
    fn new(permits: usize, is_shared: bool) -> Self {
        let store = Readers {
            gate: Semaphore::new(permits),
            scans: AtomicUsize::new(0),
            is_away: AtomicBool::new(false),
        };
        let (store, bitmaps) = (Arc::new(store), Arc::<Bitmaps>::default());
        let shared: Option<Arc<dyn ReaderBitmaps>> = is_shared.then(|| Arc::<Bitmaps>::clone(&bitmaps) as _);
        let readers: Arc<dyn NoticeReaderStore> = Arc::<Readers>::clone(&store);
        Self { counts: ReaderCounts::new(readers, shared, &NoticesConfig::default()), store, bitmaps }
    }

    async fn count(&self) -> (u64, bool) {
        let counted = self.counts.count(&audience(), &[3]).await.unwrap();
        assert_eq!(counted.registered, 5);
        (counted.counts[0], counted.incomplete)
    }

    fn scans(&self) -> usize {
        self.store.scans.load(Ordering::Acquire)
    }
}

#[tokio::test(start_paused = true)]
async fn counts_without_bitmaps_scan_once_in_10_s() {
    let stage = CountsFixture::new(100, false);
    for _ in 0..3 {
        assert_eq!((stage.count().await, stage.scans()), ((3, false), 1));
    }
    advance(FRESH).await;
    assert_eq!((stage.count().await, stage.scans()), ((3, false), 2));
}

#[tokio::test(start_paused = true)]
async fn counts_at_once_wait_for_one_scan() {
    let stage = CountsFixture::new(1, false);
    let counts = join_all((0..20).map(|_| stage.count())).await;
    assert!(counts.iter().all(|count| *count == (3, false)), "{counts:?}");
    assert_eq!(stage.scans(), 1);
}

#[tokio::test(start_paused = true)]
async fn slow_count_is_incomplete_and_continues() {
    let stage = CountsFixture::new(0, false);
    let begun = Instant::now();
    assert_eq!(stage.count().await, (0, true));
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
    stage.store.gate.add_permits(1);
    assert_eq!((stage.count().await, stage.scans()), ((3, false), 1), "the first scan went on");
}

#[tokio::test(start_paused = true)]
async fn old_failure_is_not_the_answer_of_a_slow_scan() {
    let stage = CountsFixture::new(1, false);
    stage.store.is_away.store(true, Ordering::Release);
    stage.counts.count(&audience(), &[3]).await.unwrap_err();
    stage.store.is_away.store(false, Ordering::Release);
    assert_eq!(stage.count().await, (0, true), "a scan is running");
    stage.store.gate.add_permits(1);
    assert_eq!(stage.count().await, (3, false));
}

#[tokio::test(start_paused = true)]
async fn failed_scan_is_an_error_and_is_tried_again() {
    let stage = CountsFixture::new(100, false);
    stage.store.is_away.store(true, Ordering::Release);
    let failed = stage.counts.count(&audience(), &[3]).await.unwrap_err();
    assert_eq!(failed.reason(), crate::error::Reason::StoreUnavailable);
    stage.store.is_away.store(false, Ordering::Release);
    assert_eq!(stage.count().await, (3, false));
}

#[tokio::test(start_paused = true)]
async fn filled_bitmap_answers_and_has_marks_at_once() {
    let stage = CountsFixture::new(100, true);
    assert_eq!(stage.count().await, (3, false));
    stage.counts.marked(&changed(4, &[3]), &ReaderMark::Read(vec![3]), None).await;
    assert_eq!((stage.count().await, stage.scans()), ((4, false), 1));
}

fn given_out(slot: Slot) -> [ChangedAudience; 1] {
    [ChangedAudience { id: audience().id, version: Version::FIRST, slots: vec![slot] }]
}

#[tokio::test(start_paused = true)]
async fn new_slot_is_counted_without_a_scan() {
    let stage = CountsFixture::new(0, true);
    let prepared = stage.counts.prepare(&[audience().id]).await;
    stage.counts.complete(prepared, &given_out(3)).await;
    assert_eq!((stage.count().await, stage.scans()), ((0, false), 0));
    stage.counts.marked(&changed(4, &[3]), &ReaderMark::Read(vec![3]), None).await;
    assert_eq!((stage.count().await, stage.scans()), ((1, false), 0));
}

/// Marks that were kept for the fill were dropped: zeros would lack them.
#[tokio::test(start_paused = true)]
async fn new_slot_unmarked_before_its_fill_is_scanned() {
    let stage = CountsFixture::new(1, true);
    let prepared = stage.counts.prepare(&[audience().id]).await;
    stage.counts.marked(&changed(4, &[]), &ReaderMark::Unread(vec![3]), None).await;
    stage.counts.complete(prepared, &given_out(3)).await;
    assert_eq!((stage.count().await, stage.scans()), ((3, false), 1));
}

#[tokio::test(start_paused = true)]
async fn slots_of_other_audiences_are_left_alone() {
    let stage = CountsFixture::new(1, true);
    let prepared = stage.counts.prepare(&[AudienceId::new(2).unwrap()]).await;
    stage.counts.complete(prepared, &given_out(3)).await;
    assert_eq!((stage.count().await, stage.scans()), ((3, false), 1));
}

#[tokio::test(start_paused = true)]
async fn new_slot_without_redis_is_scanned() {
    let stage = CountsFixture::new(1, true);
    stage.bitmaps.is_away.store(true, Ordering::Release);
    let prepared = stage.counts.prepare(&[audience().id]).await;
    stage.counts.complete(prepared, &given_out(3)).await;
    stage.bitmaps.is_away.store(false, Ordering::Release);
    assert_eq!((stage.count().await, stage.scans()), ((3, false), 1));
}

#[tokio::test(start_paused = true)]
async fn counts_go_on_without_redis() {
    let stage = CountsFixture::new(100, true);
    stage.bitmaps.is_away.store(true, Ordering::Release);
    assert_eq!((stage.count().await, stage.scans()), ((3, false), 1));
}

#[tokio::test(start_paused = true)]
async fn unmark_drops_its_bitmap_twice() {
    let stage = CountsFixture::new(100, true);
    let dropped = || stage.bitmaps.dropped.load(Ordering::Acquire);
    stage.counts.marked(&changed(1, &[]), &ReaderMark::Unread(vec![3]), None).await;
    assert_eq!(dropped(), 1);
    let repairs = stage.counts.run_repairs();
    assert!(tokio::time::timeout(Duration::from_millis(4_900), repairs).await.is_err());
    assert_eq!(dropped(), 1);
    let repairs = stage.counts.run_repairs();
    assert!(tokio::time::timeout(Duration::from_millis(10_100), repairs).await.is_err());
    assert_eq!(dropped(), 2, "and not a third time");
}

#[tokio::test(start_paused = true)]
async fn refused_bitmap_is_dropped_once_redis_answers() {
    let stage = CountsFixture::new(100, true);
    assert_eq!(stage.count().await, (3, false));
    stage.bitmaps.is_away.store(true, Ordering::Release);
    stage.counts.marked(&changed(4, &[3]), &ReaderMark::Read(vec![3]), None).await;
    for is_away in [true, false] {
        stage.bitmaps.is_away.store(is_away, Ordering::Release);
        let repairs = stage.counts.run_repairs();
        assert!(tokio::time::timeout(Duration::from_millis(3_100), repairs).await.is_err());
        let is_dropped = stage.bitmaps.complete.lock().is_empty();
        assert_eq!(is_dropped, !is_away);
    }
}

#[tokio::test(start_paused = true)]
async fn forgotten_reader_leaves_its_bitmaps() {
    let stage = CountsFixture::new(100, true);
    assert_eq!(stage.count().await, (3, false));
    let before = reader(1, &[3]);
    stage.counts.marked(&changed(1, &[]), &ReaderMark::Forget(Timestamp(9)), Some(&before)).await;
    assert!(stage.bitmaps.complete.lock().is_empty());
}
