//! Relation change feeds.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use kith_store::{FeedError, FeedRecord, FeedStream, Stores, Version};
use tokio::time::Instant;

use super::{BOUND, KEPT, Stage, blocking, edge, now};

/// Shorter than the time after which a block's write counts as ended, in either way.
pub(super) const AT_ONCE: Duration = Duration::from_secs(4);

pub(super) async fn open(stores: &Stores) -> Vec<Box<dyn FeedStream>> {
    let mut feeds = Vec::new();
    for named in stores.feeds.iter().filter(|named| named.name.starts_with("relation_feed_")) {
        feeds.push(named.feed.open(None).await.unwrap());
    }
    feeds
}

/// Where each feed is now.
pub(super) async fn marks(feeds: &mut [Box<dyn FeedStream>]) -> Vec<Vec<u8>> {
    let mut marks = Vec::new();
    for feed in feeds {
        marks.push(feed.next(Duration::ZERO).await.unwrap().mark);
    }
    marks
}

pub(super) async fn open_after(stores: &Stores, marks: &[Vec<u8>]) -> Vec<Box<dyn FeedStream>> {
    let mut feeds = Vec::new();
    let named = stores.feeds.iter().filter(|named| named.name.starts_with("relation_feed_"));
    for (named, mark) in named.zip(marks) {
        feeds.push(named.feed.open(Some(mark)).await.unwrap());
    }
    feeds
}

/// Reads until each of these was delivered with this version; versions must rise.
pub(super) async fn assert_delivered(
    feeds: &mut [Box<dyn FeedStream>],
    expected: BTreeMap<FeedRecord, Version>,
) {
    assert_delivered_within(BOUND, feeds, expected).await;
}

pub(super) async fn assert_delivered_within(
    bound: Duration,
    feeds: &mut [Box<dyn FeedStream>],
    mut expected: BTreeMap<FeedRecord, Version>,
) {
    let mut delivered: BTreeMap<FeedRecord, Version> = BTreeMap::new();
    let give_up = Instant::now() + bound;
    while !expected.is_empty() {
        assert!(Instant::now() < give_up, "not delivered: {expected:?}");
        // Reads all at once and with patience: a reading that is cut short begins again.
        for batch in join_all(feeds.iter_mut().map(|feed| feed.next(Duration::from_secs(1)))).await {
            for change in batch.unwrap().changes {
                let version = change.version.unwrap();
                let before = delivered.insert(change.record, version);
                assert!(before.is_none_or(|before| before < version), "{change:?} after {before:?}");
                if expected.get(&change.record) == Some(&version) {
                    expected.remove(&change.record);
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn feed_reports_each_change_despite_clock_skew() {
    let stage = Stage::open().await;
    let mut feeds = open(&stage.stores).await;
    assert_eq!(feeds.len(), 4);
    let mut expected = BTreeMap::new();
    for ahead in [60_000, 0, -60_000] {
        let (stores, _node) = stage.node(|cql| cql.clock_ahead = ahead).await;
        for to in 2..10 {
            let (follow, block) = (edge(20 + ahead / 10_000, to), edge(to, 20 + ahead / 10_000));
            let begun = stores.follows.follow(follow, KEPT, now()).await.unwrap().record;
            expected.insert(FeedRecord::Follow(follow), begun.version);
            let set = stores.blocks.set_block(block, blocking(true), now()).await.unwrap().record;
            expected.insert(FeedRecord::Block(block), set.block.version);
            expected.insert(FeedRecord::Follow(follow), set.cut.unwrap());
        }
    }
    assert_delivered(&mut feeds, expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn feed_delivers_the_block_of_a_dead_node() {
    let stage = Stage::open().await;
    let mut feeds = open(&stage.stores).await;
    let (dying, _node) = stage.node(|cql| cql.fail_point = Some("block_written")).await;
    dying.blocks.set_block(edge(1, 2), blocking(true), now()).await.unwrap_err();
    assert_delivered(&mut feeds, BTreeMap::from([(FeedRecord::Block(edge(1, 2)), Version::FIRST)])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn successor_feeds_the_block_of_a_dead_node() {
    let stage = Stage::open().await;
    let mut feeds = open(&stage.stores).await;
    let marks = marks(&mut feeds).await;
    drop(feeds);
    let (dying, _node) = stage.node(|cql| cql.fail_point = Some("block_written")).await;
    dying.blocks.set_block(edge(1, 2), blocking(true), now()).await.unwrap_err();
    let mut feeds = open_after(&stage.stores, &marks).await;
    let expected = BTreeMap::from([(FeedRecord::Block(edge(1, 2)), Version::FIRST)]);
    assert_delivered_within(AT_ONCE, &mut feeds, expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn feed_resumes_at_mark_and_refuses_others() {
    let stage = Stage::open().await;
    let mut feeds = open(&stage.stores).await;
    let marks = marks(&mut feeds).await;
    drop(feeds);
    let begun = stage.stores.follows.follow(edge(1, 2), KEPT, now()).await.unwrap().record;
    let mut again = open_after(&stage.stores, &marks).await;
    for named in stage.stores.feeds.iter().filter(|named| named.name.starts_with("relation_feed_")) {
        let old = [&[1], &7_i64.to_be_bytes()[..]].concat();
        for lost in [&b"garbage"[..], &[], &old] {
            let refused = named.feed.open(Some(lost)).await;
            assert!(matches!(refused, Err(FeedError::Lost)), "{lost:?}");
        }
    }
    assert_delivered(&mut again, BTreeMap::from([(FeedRecord::Follow(edge(1, 2)), begun.version)])).await;
}
