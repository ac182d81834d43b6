//! How long nodes answer the state before a change.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

/// The pause between two rounds of calls to one node.
const LOOK: Duration = Duration::from_millis(20);

/// A change that can be read on every node.
pub(super) trait WatchedChange: Sync {
    /// When it was acknowledged.
    fn at(&self) -> Instant;

    /// Whether the node answers the state after the change; `None`: no answer.
    fn is_seen(&self, node: Channel) -> impl Future<Output = Option<bool>> + Send;
}

/// All nodes' answers about one change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChangeSeen {
    pub(super) answers: u64,
    pub(super) failed: u64,
    /// The longest time after the change during which a request got no answer.
    pub(super) failed_for: Duration,
    /// The longest time after the change during which a request was answered with the previous state.
    pub(super) old_for: Duration,
}

/// Asks all nodes about all changes, repeatedly for so long. The result has the order of the changes.
pub(super) async fn watch<C: WatchedChange>(
    changes: &[C],
    nodes: &[Channel],
    lasts: Duration,
) -> Vec<ChangeSeen> {
    let seen = join_all(nodes.iter().map(|node| watch_node(changes, node, lasts))).await;
    let merged = |at: usize| seen.iter().map(|seen| seen[at]).fold(ChangeSeen::default(), ChangeSeen::and);
    (0..changes.len()).map(merged).collect()
}

async fn watch_node<C: WatchedChange>(changes: &[C], node: &Channel, lasts: Duration) -> Vec<ChangeSeen> {
    let (until, mut seen) = (Instant::now() + lasts, vec![ChangeSeen::default(); changes.len()]);
    while Instant::now() < until {
        for (change, seen) in changes.iter().zip(&mut seen) {
            let age = change.at().elapsed();
            seen.add(change.is_seen(node.clone()).await, age);
        }
        sleep(LOOK).await;
    }
    seen
}

impl ChangeSeen {
    fn add(&mut self, is_seen: Option<bool>, age: Duration) {
        match is_seen {
            None => {
                self.failed += 1;
                self.failed_for = self.failed_for.max(age);
            }
            Some(true) => self.answers += 1,
            Some(false) => {
                self.answers += 1;
                self.old_for = self.old_for.max(age);
            }
        }
    }

    /// Combines both: the longer times.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            answers: self.answers + other.answers,
            failed: self.failed + other.failed,
            failed_for: self.failed_for.max(other.failed_for),
            old_for: self.old_for.max(other.old_for),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_answer_counts_and_failures_are_apart() {
        let mut seen = ChangeSeen::default();
        let second = Duration::from_secs(1);
        for (answer, after) in
            [(Some(false), 1), (Some(true), 2), (Some(false), 3), (None, 4), (Some(true), 5)]
        {
            seen.add(answer, after * second);
        }
        assert_eq!(seen, ChangeSeen { answers: 4, failed: 1, failed_for: 4 * second, old_for: 3 * second });
        assert_eq!(ChangeSeen::default().and(seen), seen);
    }
}
