//! The changes that this node published in the last seconds. When the node moves to a later epoch, those from
//! earlier logs are published again.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Invalidation;

/// Longer than a node follows a log that others have left.
const KEPT: Duration = Duration::from_secs(5);
/// Maximum entries; the oldest are dropped first.
const MOST: usize = 10_000;

/// What this node has published recently, and in the log of which epoch. A server that fell back may have lost a later
/// epoch, and accepts changes in a log that other nodes have left and no longer read.
#[derive(Debug, Default)]
pub(super) struct RecentPublishes(Mutex<VecDeque<RecentPublish>>);

#[derive(Debug)]
struct RecentPublish {
    at: Instant,
    epoch: u64,
    change: Invalidation,
}

impl RecentPublishes {
    /// These were published.
    pub(in crate::remote) fn told(&self, epoch: u64, changes: &[Invalidation]) {
        let at = Instant::now();
        let mut told = self.0.lock();
        while told.front().is_some_and(|first| at - first.at > KEPT) {
            told.pop_front();
        }
        for change in changes {
            if told.len() >= MOST {
                told.pop_front();
            }
            told.push_back(RecentPublish { at, epoch, change: change.without_copy() });
        }
    }

    /// Removes and returns what was published in logs before that of this epoch.
    pub(super) fn take_before(&self, epoch: u64) -> Vec<Invalidation> {
        let (mut told, now) = (self.0.lock(), Instant::now());
        let (before, here): (VecDeque<RecentPublish>, VecDeque<RecentPublish>) =
            told.drain(..).partition(|told| told.epoch < epoch);
        *told = here;
        before.into_iter().filter(|told| now - told.at <= KEPT).map(|told| told.change).collect()
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
        let lately = RecentPublishes::default();
        lately.told(1, &[change("long ago")]);
        tokio::time::advance(KEPT * 2).await;
        lately.told(1, &[change("a"), change("b")]);
        lately.told(2, &[change("c")]);
        assert_eq!(keys(&lately.take_before(2)), ["a", "b"]);
        assert_eq!(keys(&lately.take_before(3)), ["c"]);
        assert!(lately.take_before(3).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_publishes_are_dropped_at_limit() {
        let lately = RecentPublishes::default();
        let all: Vec<Invalidation> = (0..=MOST).map(|key| change(&key.to_string())).collect();
        lately.told(1, &all);
        let kept = lately.take_before(2);
        assert_eq!((kept.len(), kept[0].key.as_str()), (MOST, "1"));
    }
}
