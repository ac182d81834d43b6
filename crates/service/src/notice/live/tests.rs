//! Tests of live totals, over records in memory. Each case calls the rounds itself, at a time that it
//! chooses.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicUsize},
};

use kith_store::{AudienceEntry, NoticeId, ReadBits, ReaderMark, SINCE_CREATION, Slot, Text, Version};

use super::{rounds::READ_MAX, *};

const NOW: Timestamp = Timestamp(1_000_000);

/// Records in memory, which may forget readers and fail.
#[derive(Debug, Default)]
struct FakeSource {
    audiences: Mutex<HashMap<AudienceId, Arc<Audience>>>,
    readers: Mutex<HashMap<ReaderKey, Arc<NoticeReader>>>,
    /// Memory does not have the readers.
    is_forgetful: AtomicBool,
    audience_reads: AtomicUsize,
    reader_reads: Mutex<Vec<ReaderKey>>,
}

#[async_trait]
impl TotalsSource for FakeSource {
    async fn audiences(&self, ids: &[AudienceId]) -> Vec<Result<Option<Arc<Audience>>, Error>> {
        self.audience_reads.fetch_add(ids.len(), Ordering::AcqRel);
        let audiences = self.audiences.lock();
        ids.iter().map(|id| Ok(audiences.get(id).cloned())).collect()
    }

    async fn readers(&self, keys: &[ReaderKey]) -> Vec<Result<Option<Arc<NoticeReader>>, Error>> {
        self.reader_reads.lock().extend(keys);
        let readers = self.readers.lock();
        keys.iter().map(|key| Ok(readers.get(key).cloned())).collect()
    }

    fn in_memory(&self, key: &ReaderKey) -> Option<Option<Arc<NoticeReader>>> {
        let is_known = !self.is_forgetful.load(Ordering::Acquire);
        is_known.then(|| self.readers.lock().get(key).cloned())
    }
}

/// The totals that the listener was notified about.
#[derive(Debug, Default)]
struct ReceivedTotals(Mutex<Vec<AudienceTotals>>);

impl TotalsListener for ReceivedTotals {
    fn changed(&self, totals: AudienceTotals) {
        self.0.lock().push(totals);
    }
}

struct TotalsFixture {
    fake: Arc<FakeSource>,
    live: LiveTotals,
    rounds: TotalsRounds,
    received: Arc<ReceivedTotals>,
}

fn audience_id() -> AudienceId {
    AudienceId::new(1).unwrap()
}

fn key(user: i64) -> ReaderKey {
    ReaderKey { audience: audience_id(), reader: ReaderId::new(user).unwrap() }
}

fn entry(slot: Slot, publish: Timestamp, expire: Option<Timestamp>) -> AudienceEntry {
    let notice = NoticeId::new(i64::from(slot) + 1).unwrap();
    AudienceEntry { notice, slot, confirm_slot: None, publish, expire, pinned: false, for_newcomers: false }
}

impl TotalsFixture {
    fn new(entries: Vec<AudienceEntry>) -> Self {
        let fake = Arc::<FakeSource>::default();
        let live = LiveTotals::over(Arc::<FakeSource>::clone(&fake));
        let stage = Self { fake, rounds: TotalsRounds::new(live.clone()), live, received: Arc::default() };
        stage.put_audience(1, true, entries);
        stage
    }

    fn put_audience(&self, version: i64, of_users: bool, entries: Vec<AudienceEntry>) {
        let audience = Audience {
            id: audience_id(),
            version: Version::new(version).unwrap(),
            name: Text::default(),
            of_users,
            created: Timestamp(0),
            next_slot: 64,
            entries,
        };
        self.fake.audiences.lock().insert(audience.id, Arc::new(audience));
    }

    fn put_reader(&self, user: i64, version: i64, slots: &[Slot]) {
        let reader = NoticeReader {
            key: key(user),
            version: Version::new(version).unwrap(),
            ordinal: 0,
            since: Timestamp(0),
            bits: ReadBits::default().with(slots),
        };
        self.fake.readers.lock().insert(reader.key, Arc::new(reader));
    }

    async fn watch(&self, user: i64) -> Result<(TotalsWatches, Vec<AudienceTotals>), Error> {
        let listener = Arc::<ReceivedTotals>::clone(&self.received);
        self.live.watch(UserId::new(user).unwrap(), Timestamp(0), &[audience_id()], listener).await
    }

    /// Read and unread, as a round brings them.
    async fn round(&mut self, now: Timestamp) -> Vec<(u32, u32)> {
        self.rounds.round(now).await;
        let received = std::mem::take(&mut *self.received.0.lock());
        received.iter().map(|one| (one.totals.read, one.totals.unread)).collect()
    }

    fn reads(&self) -> usize {
        std::mem::take(&mut *self.fake.reader_reads.lock()).len()
    }
}

#[tokio::test]
async fn mark_changes_the_totals_once() {
    let mut stage = TotalsFixture::new(vec![entry(0, NOW, None), entry(1, NOW, None)]);
    let (_watching, totals) = stage.watch(7).await.unwrap();
    assert_eq!((totals[0].audience, totals[0].totals.unread), (audience_id(), 2));
    assert_eq!(stage.round(NOW).await, []);
    stage.put_reader(7, 1, &[0]);
    assert_eq!(stage.round(NOW).await, [(1, 1)]);
    assert_eq!(stage.round(NOW).await, []);
    stage.put_reader(7, 2, &[0, 9]);
    assert_eq!(stage.round(NOW).await, [], "a bit of no notice changes no totals");
}

#[tokio::test]
async fn change_of_the_audience_changes_the_totals() {
    let mut stage = TotalsFixture::new(vec![entry(0, NOW, None)]);
    stage.put_reader(7, 1, &[0]);
    let (_watching, _) = stage.watch(7).await.unwrap();
    stage.put_audience(2, true, vec![entry(0, NOW, None), entry(1, NOW, None)]);
    assert_eq!(stage.round(NOW).await, [(1, 1)]);
    stage.put_audience(3, true, vec![entry(1, NOW, None)]);
    assert_eq!(stage.round(NOW).await, [(0, 1)]);
}

#[tokio::test]
async fn forgotten_reader_sees_what_its_user_sees() {
    let mut stage = TotalsFixture::new(vec![entry(0, NOW, None), entry(1, NOW, None)]);
    let reader = NoticeReader {
        key: key(7),
        version: Version::FIRST,
        ordinal: 0,
        since: SINCE_CREATION,
        bits: ReadBits::default(),
    };
    stage.fake.readers.lock().insert(reader.key, Arc::new(reader.clone()));
    let (_watching, totals) = stage.watch(7).await.unwrap();
    assert_eq!(totals[0].totals.unread, 2, "those since its creation");
    let marked = reader.marked(&ReaderMark::Read(vec![0]), &[]).unwrap();
    stage.fake.readers.lock().insert(marked.key, Arc::new(marked));
    assert_eq!(stage.round(NOW).await, [(1, 1)]);
}

#[tokio::test]
async fn times_that_pass_change_the_totals() {
    let later = |ms| Timestamp(NOW.0 + ms);
    let mut stage = TotalsFixture::new(vec![entry(0, later(10), None), entry(1, NOW, Some(later(20)))]);
    // The watch begins by the machine's clock, when both times have passed.
    let (_watching, totals) = stage.watch(7).await.unwrap();
    assert_eq!(totals[0].totals.unread, 1);
    assert_eq!(stage.round(NOW).await, [], "one is visible, now the other one");
    assert_eq!(stage.round(later(9)).await, []);
    assert_eq!(stage.round(later(10)).await, [(0, 2)]);
    assert_eq!(stage.round(later(20)).await, [(0, 1)]);
}

#[tokio::test]
async fn older_copies_change_nothing() {
    let mut stage = TotalsFixture::new(vec![entry(0, NOW, None)]);
    stage.put_reader(7, 5, &[0]);
    let (_watching, _) = stage.watch(7).await.unwrap();
    stage.put_reader(7, 4, &[]);
    assert_eq!(stage.round(NOW).await, []);
    stage.fake.readers.lock().clear();
    assert_eq!(stage.round(NOW).await, []);
    stage.put_audience(3, true, Vec::new());
    stage.put_reader(7, 5, &[0]);
    assert_eq!(stage.round(NOW).await, [(0, 0)]);
    stage.put_audience(2, true, vec![entry(0, NOW, None)]);
    assert_eq!(stage.round(NOW).await, []);
}

#[tokio::test]
async fn ten_thousand_streams_share_one_audience_read() {
    let mut stage = TotalsFixture::new((0..1_000).map(|slot| entry(slot, NOW, None)).collect());
    let mut watching = Vec::new();
    for user in 1..=10_000 {
        watching.push(stage.watch(user).await.unwrap());
    }
    stage.reads();
    stage.fake.audience_reads.store(0, Ordering::Release);
    for _ in 0..3 {
        assert_eq!(stage.round(NOW).await, []);
    }
    assert_eq!((stage.reads(), stage.fake.audience_reads.load(Ordering::Acquire)), (0, 3));
    stage.put_reader(9_999, 1, &[0]);
    assert_eq!((stage.round(NOW).await, stage.reads()), (vec![(1, 999)], 0));
}

#[tokio::test]
async fn readers_that_memory_lacks_have_their_turns() {
    let mut stage = TotalsFixture::new(vec![entry(0, NOW, None)]);
    let mut watching = Vec::new();
    for user in 1..=2_500 {
        watching.push(stage.watch(user).await.unwrap());
    }
    stage.reads();
    stage.fake.is_forgetful.store(true, Ordering::Release);
    (1..=2_500).for_each(|user| stage.put_reader(user, 1, &[0]));
    for expected in [1_000, 1_000, 500] {
        assert_eq!(stage.round(NOW).await.len(), expected);
        assert_eq!(stage.reads(), READ_MAX);
    }
}

#[tokio::test]
async fn ended_stream_is_not_compared() {
    let mut stage = TotalsFixture::new(vec![entry(0, NOW, None)]);
    let (watching, _) = stage.watch(7).await.unwrap();
    drop(watching);
    stage.put_reader(7, 1, &[0]);
    stage.fake.audience_reads.store(0, Ordering::Release);
    assert_eq!(stage.round(NOW).await, []);
    assert_eq!(stage.fake.audience_reads.load(Ordering::Acquire), 0);
    assert!(stage.live.watches().is_empty());
}

#[tokio::test]
async fn only_audiences_of_users_are_watched() {
    let stage = TotalsFixture::new(Vec::new());
    stage.put_audience(2, false, Vec::new());
    assert_eq!(stage.watch(7).await.unwrap_err().reason(), crate::error::Reason::InvalidField);
    stage.fake.audiences.lock().clear();
    assert_eq!(stage.watch(7).await.unwrap_err().reason(), crate::error::Reason::NotFound);
    assert!(stage.live.watches().is_empty());
}
