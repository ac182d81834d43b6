use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use kith_store::{ConversationId, DialogKey, KeptPositions, Outcome, SeqRange, UserId};
use parking_lot::Mutex;

use super::*;

const FEED: &str = "feed";

/// A store in memory for one feed.
#[derive(Debug, Default)]
struct Memory {
    extent: Mutex<Option<ChangesExtent>>,
    entries: Mutex<Vec<ChangesEntry>>,
    generations: AtomicU64,
    /// Errors for the next entries, and whether the entry is stored nevertheless.
    faults: Mutex<VecDeque<bool>>,
}

fn away() -> StoreError {
    let source = Arc::new(std::io::Error::from(std::io::ErrorKind::TimedOut));
    StoreError::Unavailable { outcome: Outcome::Unknown, source }
}

#[async_trait]
impl ChangesStore for Memory {
    async fn changes_extent(&self) -> Result<Option<ChangesExtent>, StoreError> {
        let last = self.entries.lock().last().map(|entry| entry.number);
        let mut extent = self.extent.lock().clone();
        if let (Some(extent), Some(last)) = (&mut extent, last) {
            extent.feeds.insert(FEED.to_owned(), KeptPositions { first: 1, last });
        }
        Ok(extent)
    }

    async fn changes_after(&self, _feed: &str, _after: i64) -> Result<Vec<ChangesEntry>, StoreError> {
        Ok(self.entries.lock().clone())
    }

    async fn begin_generation(&self, dialogs: bool) -> Result<(), StoreError> {
        let generation = self.generations.fetch_add(1, Ordering::Relaxed) + 1;
        *self.extent.lock() = Some(ChangesExtent { generation, dialogs, ..ChangesExtent::default() });
        Ok(())
    }

    async fn end_changes(&self) -> Result<(), StoreError> {
        *self.extent.lock() = None;
        Ok(())
    }

    async fn trim_changes(&self, _kept: Duration, _bytes_max: u64) -> Result<bool, StoreError> {
        Ok(false)
    }
}

#[async_trait]
impl ChangesWriter for Memory {
    async fn append_changes(&self, entry: &ChangesEntry) -> Result<bool, StoreError> {
        let fault = self.faults.lock().pop_front();
        let mut entries = self.entries.lock();
        if entries.iter().any(|kept| kept.number == entry.number) {
            return Ok(false);
        }
        if fault != Some(false) {
            entries.push(entry.clone());
        }
        if fault.is_some() { Err(away()) } else { Ok(true) }
    }
}

fn keeper(store: &Arc<Memory>, config: ChangesConfig) -> ChangesKeeper {
    ChangesKeeper { store: Arc::<Memory>::clone(store), writer: Arc::<Memory>::clone(store), config }
}

async fn begin(store: &Arc<Memory>, dialogs: bool, follows: bool) -> KeptFeed {
    let config = ChangesConfig { kept: Duration::from_secs(60), dialogs, ..ChangesConfig::default() };
    keeper(store, config).begin(FEED, follows).await.unwrap().unwrap()
}

fn change(record: FeedRecord) -> FeedChange {
    FeedChange { record, version: None, by_hand: false }
}

fn user(id: i64) -> FeedChange {
    change(FeedRecord::User(UserId::new(id).unwrap()))
}

fn generation(store: &Memory) -> Option<u64> {
    store.extent.lock().as_ref().map(|extent| extent.generation)
}

fn kept(store: &Memory) -> Vec<(i64, Vec<FeedChange>)> {
    store.entries.lock().iter().map(|entry| (entry.number, entry.changes.clone())).collect()
}

#[tokio::test]
async fn batches_become_entries_without_a_gap() {
    let store = Arc::default();
    let mut feed = begin(&store, false, true).await;
    for batch in [&[user(1), user(2)][..], &[], &[user(3)]] {
        feed.keep(batch).await.unwrap();
    }
    drop(feed);
    begin(&store, false, true).await.keep(&[user(3)]).await.unwrap();
    let expected = [(1, vec![user(1), user(2)]), (2, vec![user(3)]), (3, vec![user(3)])];
    assert_eq!(kept(&store), expected);
    assert_eq!(generation(&store), Some(1));
}

#[tokio::test]
async fn second_leader_stops() {
    let store = Arc::default();
    let mut first = begin(&store, false, true).await;
    let mut second = begin(&store, false, true).await;
    first.keep(&[user(1)]).await.unwrap();
    for _ in 0..2 {
        assert_eq!(second.keep(&[user(1)]).await, Err(FeedError::Unavailable));
    }
    first.keep(&[user(2)]).await.unwrap();
    assert_eq!(kept(&store), [(1, vec![user(1)]), (2, vec![user(2)])]);
}

/// Whether the entry is stored or not: the next one must not follow before the feed is read again.
#[tokio::test]
async fn nothing_follows_an_entry_that_may_be_missing() {
    for is_stored in [false, true] {
        let store = Arc::<Memory>::default();
        store.faults.lock().push_back(is_stored);
        let mut feed = begin(&store, false, true).await;
        for id in [1, 2] {
            assert_eq!(feed.keep(&[user(id)]).await, Err(FeedError::Unavailable));
        }
        let mut again = begin(&store, false, true).await;
        again.keep(&[user(1), user(2)]).await.unwrap();
        let kept: Vec<Vec<FeedChange>> = kept(&store).into_iter().map(|(_, changes)| changes).collect();
        assert_eq!(kept.last().unwrap(), &[user(1), user(2)]);
        assert_eq!(kept.len(), if is_stored { 2 } else { 1 });
    }
}

#[tokio::test]
async fn dialogs_are_kept_where_it_is_configured() {
    let conversation = ConversationId::Group(kith_store::GroupId::new(9).unwrap());
    let dialog = change(FeedRecord::Dialog(DialogKey { user: UserId::new(7).unwrap(), conversation }));
    let appended = change(FeedRecord::Messages(conversation, SeqRange { first: 1, last: 2 }));
    for (dialogs, expected) in [(false, vec![appended]), (true, vec![dialog, appended])] {
        let store = Arc::default();
        let mut feed = begin(&store, dialogs, true).await;
        feed.keep(&[dialog, appended]).await.unwrap();
        assert_eq!(kept(&store), [(1, expected)]);
        feed.keep(&[dialog]).await.unwrap();
        assert_eq!(kept(&store).len(), if dialogs { 2 } else { 1 }, "no entry is empty");
    }
}

#[tokio::test]
async fn missing_changes_begin_a_generation() {
    let store = Arc::default();
    for (dialogs, follows, expected) in
        [(false, true, 1), (false, true, 1), (false, false, 2), (true, true, 3), (true, true, 3)]
    {
        begin(&store, dialogs, follows).await;
        assert_eq!(generation(&store), Some(expected), "{dialogs} {follows}");
        assert_eq!(store.extent.lock().as_ref().unwrap().dialogs, dialogs);
    }
}

#[tokio::test]
async fn keeping_ends_when_it_is_not_configured() {
    let store = Arc::default();
    begin(&store, false, true).await;
    assert!(keeper(&store, ChangesConfig::default()).begin(FEED, true).await.unwrap().is_none());
    while generation(&store).is_some() {
        tokio::task::yield_now().await;
    }
    assert!(keeper(&store, ChangesConfig::default()).begin(FEED, true).await.unwrap().is_none());
}
