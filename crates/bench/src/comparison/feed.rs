//! The laboratory store's change stream, as Kith reads the change stream from MongoDB.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kith_cache::{
    Invalidation, Version,
    remote::{Changes, Feed, FeedError, FeedPosition},
};
use tokio::time::{Instant, sleep};

use crate::cache_node::Store;

/// The pause between two checks for new commits.
const LOOK: Duration = Duration::from_millis(10);

/// The commits, from the store itself. One node reads it, and leads as long as it runs.
#[derive(Clone, Debug)]
pub(super) struct StoreFeed {
    store: Store,
    namespace: &'static str,
    /// Commits that were delivered.
    saved: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct StoreChanges {
    feed: StoreFeed,
    /// Commits that were read.
    at: usize,
}

impl StoreFeed {
    /// Follows commits from now on. Their keys in that namespace are the store's keys.
    pub(super) fn new(store: &Store, namespace: &'static str) -> Self {
        let saved = Arc::new(AtomicUsize::new(store.commits(0).len()));
        Self { store: store.clone(), namespace, saved }
    }
}

#[async_trait::async_trait]
impl Feed for StoreFeed {
    fn name(&self) -> &str {
        self.namespace
    }

    async fn lead(&self, _lasts: Duration) -> Result<bool, FeedError> {
        Ok(true)
    }

    async fn yield_lead(&self) {}

    async fn open(&self, _at_end: bool) -> Result<Box<dyn Changes>, FeedError> {
        Ok(Box::new(StoreChanges { feed: self.clone(), at: self.saved.load(Ordering::Acquire) }))
    }

    async fn note_end(&self, _lasts: Duration) -> Result<(), FeedError> {
        Ok(())
    }

    /// No other node asks: a single node reads the feed as long as it runs.
    async fn is_end_noted(&self) -> Result<bool, FeedError> {
        Ok(false)
    }
}

#[async_trait::async_trait]
impl Changes for StoreChanges {
    async fn next(&mut self, patience: Duration) -> Result<Vec<Invalidation>, FeedError> {
        let give_up = Instant::now() + patience;
        let mut commits = self.feed.store.commits(self.at);
        while commits.is_empty() && Instant::now() < give_up {
            sleep(LOOK).await;
            commits = self.feed.store.commits(self.at);
        }
        self.at += commits.len();
        let changed = |(key, version): (u64, u64)| Invalidation {
            namespace: self.feed.namespace,
            key: key.to_string(),
            version: Some(Version::new(version)),
            copy: None,
        };
        Ok(commits.into_iter().map(changed).collect())
    }

    fn position(&self) -> FeedPosition {
        let is_at_end = self.feed.store.commits(self.at).is_empty();
        FeedPosition { mark: self.at.to_be_bytes().to_vec(), is_at_end, written: None }
    }

    async fn save(&mut self, mark: &[u8]) -> Result<bool, FeedError> {
        let saved = mark.try_into().map_err(|_| FeedError::Lost)?;
        self.feed.saved.store(usize::from_be_bytes(saved), Ordering::Release);
        Ok(true)
    }
}
