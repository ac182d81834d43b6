//! How far the change feeds of the store are read.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How far this node knows that each feed is read.
#[derive(Debug, Default)]
pub struct FeedProgress(Mutex<BTreeMap<String, OneFeed>>);

#[derive(Debug)]
struct OneFeed {
    /// When this node last knew that a node had read the feed to its end, and published what was in it.
    /// Counts from the start of the node before that.
    end: Instant,
    /// When the oldest change was written that this node, which leads, has not checked yet.
    oldest: Option<SystemTime>,
}

impl FeedProgress {
    pub(super) fn add(&self, feed: &str) {
        self.0.lock().insert(feed.to_owned(), OneFeed { end: Instant::now(), oldest: None });
    }

    /// Records that the feed has been read to its end.
    pub(super) fn reached(&self, feed: &str) {
        if let Some(known) = self.0.lock().get_mut(feed) {
            known.end = Instant::now();
        }
    }

    /// Records when the oldest change was written that is not published yet; `None` if this node knows of
    /// none.
    pub(super) fn waits_since(&self, feed: &str, oldest: Option<SystemTime>) {
        if let Some(known) = self.0.lock().get_mut(feed) {
            known.oldest = oldest;
        }
    }

    /// Returns the name of each feed, and the time since it was read to its end.
    #[must_use]
    pub fn since(&self) -> Vec<(String, Duration)> {
        self.0.lock().iter().map(|(feed, known)| (feed.clone(), known.end.elapsed())).collect()
    }

    /// Returns each feed's name, and the age of the oldest change that this node reads and has not published
    /// yet. Zero if there is none, or another node reads the feed.
    #[must_use]
    pub fn lags(&self) -> Vec<(String, Duration)> {
        let now = SystemTime::now();
        let age = |known: &OneFeed| known.oldest.and_then(|oldest| now.duration_since(oldest).ok());
        self.0.lock().iter().map(|(feed, known)| (feed.clone(), age(known).unwrap_or_default())).collect()
    }
}
