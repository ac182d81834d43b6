//! The last entries of each feed in memory: readers near the end share one read of the store.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use kith_store::{ChangesEntry, ChangesStore, ENTRIES_READ_MAX, StoreError};
use tokio::sync::Mutex;

use super::convert::Kinds;

/// The most changes of a feed in memory; one takes about 100 bytes.
const CHANGES_MAX: usize = 16_384;

/// An entry, with the kinds of its changes.
#[derive(Debug)]
pub(super) struct KindedEntry {
    pub(super) entry: ChangesEntry,
    pub(super) kinds: Kinds,
}

/// The last entries of all feeds. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct RecentEntries {
    store: Arc<dyn ChangesStore>,
    feeds: Arc<Mutex<BTreeMap<String, RecentFeed>>>,
}

/// The entries of one feed, by rising number. Where entries were removed, a number is missing.
#[derive(Debug, Default)]
struct RecentFeed {
    generation: u64,
    entries: VecDeque<Arc<KindedEntry>>,
    /// The number of changes in them.
    changes: usize,
}

impl RecentEntries {
    pub(super) fn new(store: &Arc<dyn ChangesStore>) -> Self {
        Self { store: Arc::clone(store), feeds: Arc::default() }
    }

    /// A feed's entries above `after`, rising, at most [`ENTRIES_READ_MAX`]. `last` is the last one of this
    /// generation that the node knows of. Near it, entries that were read before are not read again.
    ///
    /// # Errors
    /// If the store cannot answer.
    pub(super) async fn after(
        &self,
        generation: u64,
        feed: &str,
        after: i64,
        last: i64,
    ) -> Result<Vec<Arc<KindedEntry>>, StoreError> {
        if !is_near(after, last) {
            return Ok(kinded(self.store.changes_after(feed, after).await?));
        }
        let mut feeds = self.feeds.lock().await;
        let recent = feeds.entry(feed.to_owned()).or_default();
        recent.begin(generation, after, last);
        let known = recent.last().unwrap_or(after);
        if known < last {
            recent.extend(kinded(self.store.changes_after(feed, known).await?));
        }
        Ok(recent.above(after))
    }
}

impl RecentFeed {
    /// Begins again if what is known is of another generation, does not reach down to `after`, or is far
    /// from the last entry.
    fn begin(&mut self, generation: u64, after: i64, last: i64) {
        let reaches = self.entries.front().is_some_and(|first| first.entry.number <= after + 1);
        let is_near_end = self.last().is_some_and(|known| is_near(known, last));
        if self.generation != generation || !reaches || !is_near_end {
            self.clear();
            self.generation = generation;
        }
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.changes = 0;
    }

    fn last(&self) -> Option<i64> {
        self.entries.back().map(|last| last.entry.number)
    }

    /// Adds entries above the known ones.
    fn extend(&mut self, more: Vec<Arc<KindedEntry>>) {
        for entry in more {
            self.changes += entry.entry.changes.len();
            self.entries.push_back(entry);
        }
        while self.changes > CHANGES_MAX
            && let Some(first) = self.entries.pop_front()
        {
            self.changes -= first.entry.changes.len();
        }
    }

    fn above(&self, after: i64) -> Vec<Arc<KindedEntry>> {
        let first = self.entries.partition_point(|known| known.entry.number <= after);
        self.entries.iter().skip(first).take(ENTRIES_READ_MAX).cloned().collect()
    }
}

/// Whether one read goes from this number to the last one.
fn is_near(number: i64, last: i64) -> bool {
    last.saturating_sub(number) <= i64::try_from(ENTRIES_READ_MAX).unwrap_or(i64::MAX)
}

fn kinded(entries: Vec<ChangesEntry>) -> Vec<Arc<KindedEntry>> {
    let kinded = |entry: ChangesEntry| {
        let kinds = Kinds::of(&entry.changes);
        Arc::new(KindedEntry { entry, kinds })
    };
    entries.into_iter().map(kinded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::fake::{FakeChanges, Reads, change};

    async fn recent() -> (Arc<FakeChanges>, RecentEntries) {
        let fake = Arc::new(FakeChanges::default());
        fake.begin_generation(false).await.unwrap();
        let store: Arc<dyn ChangesStore> = Arc::<FakeChanges>::clone(&fake);
        (fake, RecentEntries::new(&store))
    }

    async fn numbers(recent: &RecentEntries, generation: u64, after: i64, last: i64) -> Vec<i64> {
        let entries = recent.after(generation, "a", after, last).await.unwrap();
        entries.iter().map(|entry| entry.entry.number).collect()
    }

    fn entries_read(fake: &FakeChanges) -> usize {
        let Reads { entries, .. } = fake.reads();
        entries
    }

    #[tokio::test]
    async fn entry_near_the_end_is_read_once() {
        let (fake, recent) = recent().await;
        (1..=70).for_each(|id| fake.add("a", vec![change(id)]));
        for reader in 0..100 {
            assert_eq!(numbers(&recent, 1, 60 + reader % 10, 70).await.first(), Some(&(61 + reader % 10)));
        }
        assert_eq!(entries_read(&fake), 1);
        (71..=72).for_each(|id| fake.add("a", vec![change(id)]));
        assert_eq!(numbers(&recent, 1, 70, 72).await, [71, 72]);
        assert_eq!(numbers(&recent, 1, 60, 72).await, (61..=72).collect::<Vec<_>>());
        assert_eq!(entries_read(&fake), 2);
    }

    #[tokio::test]
    async fn reader_far_behind_reads_the_store() {
        let (fake, recent) = recent().await;
        (1..=200).for_each(|id| fake.add("a", vec![change(id)]));
        assert_eq!(numbers(&recent, 1, 199, 200).await, [200]);
        assert_eq!(numbers(&recent, 1, 10, 200).await, (11..=74).collect::<Vec<_>>());
        assert_eq!(numbers(&recent, 1, 199, 200).await, [200]);
        assert_eq!(entries_read(&fake), 2, "it leaves memory to readers near the end");
        assert_eq!(numbers(&recent, 1, 150, 200).await, (151..=200).collect::<Vec<_>>());
        assert_eq!(entries_read(&fake), 3);
        assert_eq!(numbers(&recent, 1, 199, 200).await, [200]);
        assert_eq!(entries_read(&fake), 3);
        (201..=400).for_each(|id| fake.add("a", vec![change(id)]));
        assert_eq!(numbers(&recent, 1, 399, 400).await, [400], "memory is far from the end");
    }

    #[tokio::test]
    async fn other_generation_forgets_entries() {
        let (fake, recent) = recent().await;
        fake.add("a", vec![change(1)]);
        assert_eq!(numbers(&recent, 1, 0, 1).await, [1]);
        fake.begin_generation(false).await.unwrap();
        fake.add("a", vec![change(2)]);
        assert_eq!(numbers(&recent, 2, 1, 2).await, [2]);
        assert_eq!(entries_read(&fake), 2);
        fake.begin_generation(false).await.unwrap();
        assert_eq!(numbers(&recent, 3, 1, 2).await, [0; 0]);
    }

    #[tokio::test]
    async fn removed_entries_leave_a_gap() {
        let (fake, recent) = recent().await;
        (1..=9).for_each(|id| fake.add("a", vec![change(id)]));
        fake.remove("a", 4);
        assert_eq!(numbers(&recent, 1, 2, 9).await, [5, 6, 7, 8, 9], "the reader sees that 3 and 4 are lost");
        assert_eq!(numbers(&recent, 1, 4, 9).await, [5, 6, 7, 8, 9]);
    }

    #[tokio::test]
    async fn memory_has_a_bound() {
        let (fake, recent) = recent().await;
        let full = || (1..=256).map(change).collect::<Vec<_>>();
        let entries = i64::try_from(CHANGES_MAX / 256).unwrap() + 10;
        for number in 1..=entries {
            fake.add("a", full());
            assert_eq!(numbers(&recent, 1, number - 1, number).await, [number]);
        }
        let feeds = recent.feeds.lock().await;
        assert_eq!((feeds["a"].changes, feeds["a"].entries.len()), (CHANGES_MAX, CHANGES_MAX / 256));
    }
}
