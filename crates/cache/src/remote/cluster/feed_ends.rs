//! When the change feeds of the store were last read to their ends.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// For each feed, when this node last knew that a node had read it to its end. Counts from the start of the node before
/// that.
#[derive(Debug, Default)]
pub struct FeedEnds(Mutex<BTreeMap<String, Instant>>);

impl FeedEnds {
    /// Adds a feed.
    pub(super) fn add(&self, feed: &str) {
        self.0.lock().insert(feed.to_owned(), Instant::now());
    }

    /// Records that the feed has been read to its end.
    pub(super) fn reached(&self, feed: &str) {
        if let Some(at) = self.0.lock().get_mut(feed) {
            *at = Instant::now();
        }
    }

    /// Returns the name of each feed, and the time since it was read to its end.
    #[must_use]
    pub fn since(&self) -> Vec<(String, Duration)> {
        self.0.lock().iter().map(|(feed, at)| (feed.clone(), at.elapsed())).collect()
    }
}
