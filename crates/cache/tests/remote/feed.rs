use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use kith_cache::{
    Invalidation, Tier, Version,
    remote::{Changes, Feed, FeedError, FeedPosition, FeedReader, FeedTiming},
};
use parking_lot::Mutex;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::stage::{Peer, Stage, Store};

/// Maximum changes in a batch, like in a store's feed.
const BATCH_MAX: usize = 256;

/// A feed that tests write.
#[derive(Clone, Debug, Default)]
struct TestFeed(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// `None`: a collection was dropped. Later changes cannot be read from a position before it.
    changes: Vec<Option<(u64, u64)>>,
    saved: Option<usize>,
    lost: bool,
    leads: Option<(u64, Instant)>,
    end_noted_until: Option<Instant>,
    /// How often was restored what a drop had removed.
    restored: usize,
    /// When each change was written.
    written: Option<SystemTime>,
}

/// The feed as one node reads it.
#[derive(Clone, Debug)]
struct NodeFeed {
    feed: TestFeed,
    node: u64,
    at: usize,
    /// When the changes that were read last were written.
    written: Option<SystemTime>,
}

impl TestFeed {
    fn add(&self, store: &Store, key: u64, version: u64) {
        store.put(key, version);
        self.0.lock().changes.push(Some((key, version)));
    }

    /// A change by hand: the version may be lower than before, `None` removes the record.
    fn change_by_hand(&self, store: &Store, key: u64, version: Option<u64>) {
        match version {
            Some(version) => store.put(key, version),
            None => store.remove(key),
        }
        self.0.lock().changes.push(Some((key, 0)));
    }

    fn drop_collection(&self) {
        self.0.lock().changes.push(None);
    }

    /// Starts a reader on the node, which reads the feed while it leads.
    fn reader(&self, peer: &Peer) -> JoinHandle<()> {
        let member = peer.member.clone();
        let feed = Arc::new(NodeFeed { feed: self.clone(), node: member.bus.id, at: 0, written: None });
        let reader = FeedReader { member, feed, timing: FeedTiming::default() };
        tokio::spawn(async move { reader.read().await })
    }
}

#[async_trait]
impl Feed for NodeFeed {
    fn name(&self) -> &'static str {
        "test"
    }

    async fn lead(&self, lasts: Duration) -> Result<bool, FeedError> {
        let mut state = self.feed.0.lock();
        let now = Instant::now();
        let free = state.leads.is_none_or(|(node, until)| node == self.node || until <= now);
        if free {
            state.leads = Some((self.node, now + lasts));
        }
        Ok(free)
    }

    async fn yield_lead(&self) {
        self.feed.0.lock().leads = None;
    }

    async fn open(&self, at_end: bool) -> Result<Box<dyn Changes>, FeedError> {
        let mut state = self.feed.0.lock();
        let at = if at_end { Some(state.changes.len()) } else { state.saved.filter(|_| !state.lost) };
        state.lost = state.lost && !at_end;
        Ok(Box::new(Self { at: at.ok_or(FeedError::Lost)?, ..self.clone() }))
    }

    async fn restore(&self) -> Result<(), FeedError> {
        self.feed.0.lock().restored += 1;
        Ok(())
    }

    async fn note_end(&self, lasts: Duration) -> Result<(), FeedError> {
        self.feed.0.lock().end_noted_until = Some(Instant::now() + lasts);
        Ok(())
    }

    async fn is_end_noted(&self) -> Result<bool, FeedError> {
        Ok(self.feed.0.lock().end_noted_until.is_some_and(|until| until > Instant::now()))
    }
}

#[async_trait]
impl Changes for NodeFeed {
    async fn next(&mut self, patience: Duration) -> Result<Vec<Invalidation>, FeedError> {
        sleep(Duration::from_millis(10).min(patience)).await;
        let state = self.feed.0.lock();
        let change = |(key, version): &(u64, u64)| Invalidation {
            namespace: "thing",
            key: key.to_string(),
            version: Some(Version::new(*version)).filter(|version| version.is_versioned()),
            copy: None,
        };
        let unread = &state.changes[self.at..];
        if unread.first() == Some(&None) {
            return Err(FeedError::Lost);
        }
        let changes: Vec<_> = unread.iter().map_while(Option::as_ref).take(BATCH_MAX).map(change).collect();
        self.at += changes.len();
        self.written = state.written.filter(|_| !changes.is_empty());
        Ok(changes)
    }

    fn position(&self) -> FeedPosition {
        let is_at_end = self.at == self.feed.0.lock().changes.len();
        FeedPosition { mark: self.at.to_be_bytes().to_vec(), is_at_end, written: self.written }
    }

    async fn save(&mut self, mark: &[u8]) -> Result<bool, FeedError> {
        let mut state = self.feed.0.lock();
        state.saved = Some(usize::from_be_bytes(mark.try_into().unwrap()));
        Ok(state.leads.is_some_and(|(node, _)| node == self.node))
    }
}

async fn until(what: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if what() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("did not come within 20 s");
}

/// A node with a reader that has begun.
async fn with_reader() -> (Stage, Peer, TestFeed, JoinHandle<()>) {
    let (stage, feed) = (Stage::new(), TestFeed::default());
    let peer = stage.peer(1, false).await;
    let before = stage.store.epoch();
    let reader = feed.reader(&peer);
    until(|| peer.node.epoch() > before && peer.node.trusted()).await;
    until(|| feed.0.lock().saved.is_some()).await;
    sleep(Duration::from_secs(2)).await;
    (stage, peer, feed, reader)
}

/// Like `with_reader`, with record 7 at version 1 in the node's memory.
async fn with_reader_and_copy() -> (Stage, Peer, TestFeed, JoinHandle<()>) {
    let parts = with_reader().await;
    parts.0.store.put(7, 1);
    parts.1.read(7).await;
    parts
}

#[tokio::test(start_paused = true)]
async fn feed_publishes_change_of_dead_writer() {
    let (stage, peer, feed, _reader) = with_reader_and_copy().await;
    feed.add(&stage.store, 7, 2);
    sleep(Duration::from_millis(900)).await;
    assert_eq!(peer.read(7).await.0, Some(2));
}

#[tokio::test(start_paused = true)]
async fn published_change_is_not_published_again() {
    let (stage, peer, feed, _reader) = with_reader_and_copy().await;
    let before = peer.node.applied();
    peer.write(&stage.store, 7, 2).await.unwrap();
    feed.add(&stage.store, 7, 2);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(peer.node.applied(), before + 1);
}

/// Waits until the feed has been read and broadcast.
async fn read_feed() {
    sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn reinserted_record_is_seen_on_every_node() {
    let (stage, peer, feed, _reader) = with_reader().await;
    let other = stage.peer(2, false).await;
    peer.write(&stage.store, 7, 1).await.unwrap();
    feed.add(&stage.store, 7, 1);
    read_feed().await;
    feed.change_by_hand(&stage.store, 7, None);
    read_feed().await;
    for node in [&peer, &other] {
        assert_eq!(node.read(7).await.0, None);
    }
    feed.add(&stage.store, 7, 1);
    read_feed().await;
    for node in [&peer, &other] {
        assert_eq!(node.read(7).await.0, Some(1), "node {}", node.member.bus.id);
    }
}

#[tokio::test(start_paused = true)]
async fn version_that_is_set_back_is_seen_and_kept() {
    let (stage, peer, feed, _reader) = with_reader().await;
    let other = stage.peer(2, false).await;
    for version in 1..=5 {
        peer.write(&stage.store, 7, version).await.unwrap();
        feed.add(&stage.store, 7, version);
        other.read(7).await;
    }
    feed.change_by_hand(&stage.store, 7, Some(2));
    read_feed().await;
    for node in [&peer, &other] {
        assert_eq!(node.read(7).await.0, Some(2));
        assert_eq!(node.read(7).await, (Some(2), Some(Tier::Memory)), "no floor keeps it out");
    }
}

#[tokio::test(start_paused = true)]
async fn node_takes_over_from_reader_that_is_gone() {
    let (stage, peer, feed, reader) = with_reader().await;
    let other = stage.peer(2, false).await;
    let _second = feed.reader(&other);
    stage.store.put(7, 1);
    peer.read(7).await;
    reader.abort();
    feed.add(&stage.store, 7, 2);
    sleep(Duration::from_secs(11)).await;
    assert_eq!(peer.read(7).await.0, Some(2));
}

#[tokio::test(start_paused = true)]
async fn feed_reader_that_cannot_publish_yields() {
    let (stage, peer, feed, _reader) = with_reader_and_copy().await;
    stage.server.refuse_writes(true);
    feed.add(&stage.store, 7, 2);
    sleep(Duration::from_secs(3)).await;
    stage.server.refuse_writes(false);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(peer.read(7).await.0, Some(2));
}

#[tokio::test(start_paused = true)]
async fn lost_feed_position_flushes_every_copy() {
    let (stage, peer, feed, reader) = with_reader_and_copy().await;
    let epoch = stage.store.epoch();
    reader.abort();
    stage.store.put(7, 2);
    feed.0.lock().lost = true;
    let _again = feed.reader(&peer);
    sleep(Duration::from_secs(12)).await;
    assert_eq!(stage.store.epoch(), epoch + 1);
    assert_eq!(peer.read(7).await.0, Some(2));
}

#[tokio::test(start_paused = true)]
async fn dropped_collection_is_read_past() {
    let (stage, peer, feed, _reader) = with_reader_and_copy().await;
    let (epoch, restored) = (stage.store.epoch(), feed.0.lock().restored);
    stage.store.put(7, 2);
    feed.drop_collection();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(peer.read(7).await.0, Some(2), "copies from before the drop are discarded");
    assert_eq!((stage.store.epoch(), feed.0.lock().restored), (epoch + 1, restored + 1));
    feed.add(&stage.store, 7, 3);
    read_feed().await;
    assert_eq!(peer.read(7).await.0, Some(3), "the feed is read again");
}

#[tokio::test(start_paused = true)]
async fn next_leader_does_not_read_the_drop_again() {
    let (stage, peer, feed, reader) = with_reader_and_copy().await;
    let other = stage.peer(2, false).await;
    let _second = feed.reader(&other);
    feed.drop_collection();
    sleep(Duration::from_secs(2)).await;
    let epoch = stage.store.epoch();
    reader.abort();
    feed.add(&stage.store, 7, 2);
    sleep(Duration::from_secs(11)).await;
    assert_eq!((peer.read(7).await.0, stage.store.epoch()), (Some(2), epoch));
}

#[tokio::test(start_paused = true)]
async fn drop_during_an_outage_is_handled_after_it() {
    let (stage, peer, feed, _reader) = with_reader_and_copy().await;
    stage.store.put(7, 2);
    stage.store.hide_epoch(true);
    feed.drop_collection();
    sleep(Duration::from_secs(3)).await;
    stage.store.hide_epoch(false);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(peer.read(7).await.0, Some(2));
    feed.add(&stage.store, 7, 3);
    read_feed().await;
    assert_eq!(peer.read(7).await.0, Some(3));
}

/// The longest time since the feed was read to its end, as the node knows it.
fn unread(peer: &Peer) -> Duration {
    peer.member.stats.feeds.since().into_iter().map(|(_, since)| since).max().unwrap()
}

#[tokio::test(start_paused = true)]
async fn repeated_drops_discard_ever_less_often() {
    let (stage, peer, feed, _reader) = with_reader().await;
    let other = stage.peer(2, false).await;
    let _second = feed.reader(&other);
    let (epoch, mut unread_max) = (stage.store.epoch(), Duration::ZERO);
    for _ in 0..600 {
        feed.drop_collection();
        sleep(Duration::from_millis(100)).await;
        unread_max = unread_max.max(unread(&peer));
    }
    let discards = stage.store.epoch() - epoch;
    assert!((4..=8).contains(&discards), "{discards} discards in a minute");
    assert!(
        unread_max > Duration::from_secs(10),
        "each node knows that the feed is not read: {unread_max:?}"
    );
    sleep(Duration::from_secs(70)).await;
    for node in [&peer, &other] {
        assert!(unread(node) < Duration::from_secs(7), "node {}: {:?}", node.member.bus.id, unread(node));
    }
}

#[tokio::test(start_paused = true)]
async fn every_node_knows_when_a_feed_is_read() {
    let (stage, peer, feed, reader) = with_reader().await;
    let other = stage.peer(2, false).await;
    let second = feed.reader(&other);
    sleep(Duration::from_secs(30)).await;
    for node in [&peer, &other] {
        assert!(unread(node) < Duration::from_secs(7), "node {}: {:?}", node.member.bus.id, unread(node));
    }
    reader.abort();
    second.abort();
    let late = stage.peer(3, false).await;
    feed.0.lock().leads = Some((9, Instant::now() + Duration::from_secs(1_000)));
    let _third = feed.reader(&late);
    sleep(Duration::from_secs(30)).await;
    assert!(
        unread(&late) > Duration::from_secs(20),
        "another node leads and does not read: {:?}",
        unread(&late)
    );
}

/// Commits version 2 of these records, as writers that die before they publish it, after the node has read
/// version 1.
async fn die_after_commit(stage: &Stage, peer: &Peer, feed: &TestFeed, keys: std::ops::RangeInclusive<u64>) {
    for key in keys.clone() {
        stage.store.put(key, 1);
        peer.read(key).await;
    }
    keys.for_each(|key| feed.add(&stage.store, key, 2));
}

#[tokio::test(start_paused = true)]
async fn feed_publishes_10_000_changes_within_2_s() {
    let (stage, peer, feed, _reader) = with_reader().await;
    die_after_commit(&stage, &peer, &feed, 1..=10_000).await;
    sleep(Duration::from_secs(2)).await;
    for key in (1..=10_000).rev().step_by(50) {
        assert_eq!(peer.read(key).await.0, Some(2), "record {key}");
    }
}

#[tokio::test(start_paused = true)]
async fn saved_mark_passes_published_changes_only() {
    let (stage, peer, feed, _reader) = with_reader().await;
    let (before, mut marks) = (feed.0.lock().changes.len(), 0);
    for key in 1..=400 {
        die_after_commit(&stage, &peer, &feed, key..=key).await;
        sleep(Duration::from_millis(10)).await;
        let saved = feed.0.lock().saved.unwrap().saturating_sub(before);
        marks += usize::from(saved > marks);
        for passed in 1..=u64::try_from(saved).unwrap() {
            assert_eq!(peer.read(passed).await.0, Some(2), "record {passed} of {saved} that a mark passes");
        }
    }
    assert!(marks > 1, "marks are saved while changes wait");
}

#[tokio::test(start_paused = true)]
async fn change_before_a_loss_waits_for_no_discard() {
    let (stage, peer, feed, _reader) = with_reader().await;
    feed.drop_collection();
    sleep(Duration::from_millis(500)).await;
    let epoch = stage.store.epoch();
    die_after_commit(&stage, &peer, &feed, 7..=7).await;
    feed.drop_collection();
    sleep(Duration::from_secs(1)).await;
    assert_eq!((peer.read(7).await.0, stage.store.epoch()), (Some(2), epoch), "the discard waits for longer");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(stage.store.epoch(), epoch + 1);
}

/// How old the oldest change is that the node has read and not published.
fn lag(peer: &Peer) -> Duration {
    peer.member.stats.feeds.lags().into_iter().map(|(_, lag)| lag).max().unwrap()
}

#[tokio::test(start_paused = true)]
async fn lag_is_the_age_of_the_oldest_waiting_change() {
    let (stage, peer, feed, _reader) = with_reader().await;
    assert_eq!(lag(&peer), Duration::ZERO);
    feed.0.lock().written = SystemTime::now().checked_sub(Duration::from_secs(30));
    feed.add(&stage.store, 7, 2);
    sleep(Duration::from_millis(100)).await;
    assert!(lag(&peer) >= Duration::from_secs(30), "{:?}", lag(&peer));
    read_feed().await;
    assert_eq!(lag(&peer), Duration::ZERO);
}
