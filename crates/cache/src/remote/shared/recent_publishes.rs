//! The changes that this node published in the last seconds. When the node moves to a later epoch, those from
//! earlier logs are published again.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Invalidation;

/// This is longer than a node follows a log that others have left.
const KEPT: Duration = Duration::from_secs(5);
/// Maximum entries; the oldest are dropped first.
const MOST: usize = 10_000;

/// The changes that this node has published recently, and each epoch in whose log. A server that fell back
/// may have lost a later epoch, and accepts changes in a log that other nodes have left and no longer read.
#[derive(Debug, Default)]
pub(super) struct RecentPublishes(Mutex<VecDeque<RecentPublish>>);

#[derive(Debug)]
struct RecentPublish {
    at: Instant,
    epoch: u64,
    change: Invalidation,
}

impl RecentPublishes {
    /// Records published changes.
    pub(in crate::remote) fn record(&self, epoch: u64, changes: &[Invalidation]) {
        let at = Instant::now();
        let mut publishes = self.0.lock();
        while publishes.front().is_some_and(|first| at - first.at > KEPT) {
            publishes.pop_front();
        }
        for change in changes {
            if publishes.len() >= MOST {
                publishes.pop_front();
            }
            publishes.push_back(RecentPublish { at, epoch, change: change.without_copy() });
        }
    }

    /// Removes and returns what was published in logs before that of this epoch.
    pub(super) fn take_before(&self, epoch: u64) -> Vec<Invalidation> {
        let (mut publishes, now) = (self.0.lock(), Instant::now());
        let (before, here): (VecDeque<RecentPublish>, VecDeque<RecentPublish>) =
            publishes.drain(..).partition(|publish| publish.epoch < epoch);
        *publishes = here;
        before.into_iter().filter(|publish| now - publish.at <= KEPT).map(|publish| publish.change).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str) -> Invalidation {
        Invalidation { namespace: "user", key: key.to_owned(), version: None, copy: None }
    }

    fn keys(changes: &[Invalidation]) -> Vec<&str> {
        changes.iter().map(|change| change.key.as_str()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn recent_publish_of_earlier_log_is_taken_once() {
        let recent = RecentPublishes::default();
        recent.record(1, &[change("long ago")]);
        tokio::time::advance(KEPT * 2).await;
        recent.record(1, &[change("a"), change("b")]);
        recent.record(2, &[change("c")]);
        assert_eq!(keys(&recent.take_before(2)), ["a", "b"]);
        assert_eq!(keys(&recent.take_before(3)), ["c"]);
        assert!(recent.take_before(3).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_publishes_are_dropped_at_limit() {
        let recent = RecentPublishes::default();
        let all: Vec<Invalidation> = (0..=MOST).map(|key| change(&key.to_string())).collect();
        recent.record(1, &all);
        let kept = recent.take_before(2);
        assert_eq!((kept.len(), kept[0].key.as_str()), (MOST, "1"));
    }
}
