//! A store of kept changes in memory, which counts what is read.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use kith_store::{
    ChangesEntry, ChangesExtent, ChangesStore, ENTRIES_READ_MAX, FeedChange, FeedRecord, KeptPositions,
    StoreError, Timestamp, Version,
};
use parking_lot::Mutex;

use crate::sample::user;

/// Cheap to make; begins without changes.
#[derive(Debug, Default)]
pub(super) struct FakeChanges(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    generation: Option<(u64, bool)>,
    generations: u64,
    feeds: BTreeMap<String, (i64, Vec<ChangesEntry>)>,
    reads: Reads,
}

/// How often the store was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reads {
    pub(super) extents: usize,
    pub(super) entries: usize,
}

/// A change of the user with this id.
pub(super) fn change(id: i64) -> FeedChange {
    FeedChange { record: FeedRecord::User(user(id)), version: Some(Version::FIRST), by_hand: false }
}

impl FakeChanges {
    /// Adds an entry with these changes.
    pub(super) fn add(&self, feed: &str, changes: Vec<FeedChange>) {
        let mut kept = self.0.lock();
        let (last, entries) = kept.feeds.entry(feed.to_owned()).or_default();
        *last += 1;
        entries.push(ChangesEntry { feed: feed.to_owned(), number: *last, written: Timestamp(0), changes });
    }

    /// Removes a feed's oldest entries.
    pub(super) fn remove(&self, feed: &str, count: usize) {
        self.0.lock().feeds.get_mut(feed).unwrap().1.drain(..count);
    }

    pub(super) fn reads(&self) -> Reads {
        self.0.lock().reads
    }
}

#[async_trait]
impl ChangesStore for FakeChanges {
    async fn changes_extent(&self) -> Result<Option<ChangesExtent>, StoreError> {
        self.0.lock().reads.extents += 1;
        // Others who ask meanwhile are seen.
        tokio::task::yield_now().await;
        let kept = self.0.lock();
        let positions = |(last, entries): &(i64, Vec<ChangesEntry>)| KeptPositions {
            first: entries.first().map_or(last + 1, |entry| entry.number),
            last: *last,
        };
        let feeds = kept.feeds.iter().map(|(feed, entries)| (feed.clone(), positions(entries))).collect();
        Ok(kept.generation.map(|(generation, dialogs)| ChangesExtent { generation, dialogs, feeds }))
    }

    async fn changes_after(&self, feed: &str, after: i64) -> Result<Vec<ChangesEntry>, StoreError> {
        let mut kept = self.0.lock();
        kept.reads.entries += 1;
        let entries = kept.feeds.get(feed).into_iter().flat_map(|(_, entries)| entries);
        Ok(entries.filter(|entry| entry.number > after).take(ENTRIES_READ_MAX).cloned().collect())
    }

    async fn begin_generation(&self, dialogs: bool) -> Result<(), StoreError> {
        let mut kept = self.0.lock();
        kept.generations += 1;
        kept.generation = Some((kept.generations, dialogs));
        kept.feeds.values_mut().for_each(|(_, entries)| entries.clear());
        Ok(())
    }

    async fn end_changes(&self) -> Result<(), StoreError> {
        let mut kept = self.0.lock();
        kept.generation = None;
        kept.feeds.values_mut().for_each(|(_, entries)| entries.clear());
        Ok(())
    }

    async fn trim_changes(&self, _kept: Duration, _bytes_max: u64) -> Result<bool, StoreError> {
        Ok(false)
    }
}
