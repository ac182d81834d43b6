//! The changes of a feed that wait for their writers' own publications.

use std::{
    collections::VecDeque,
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

use super::FeedPosition;
use crate::Invalidation;

/// Maximum changes that wait. At a grace of 250 ms this limits a feed to 131,000 changes a second.
const CHANGES_MAX: usize = 32_768;
/// Maximum bytes that waiting changes may take.
const BYTES_MAX: usize = 8 << 20;
/// Batches are published together up to this number of changes.
const TAKEN_MAX: usize = 512;

/// Batches that were read, each until it has waited for the grace. More batches are read meanwhile, so that
/// the grace delays each change and does not limit their rate.
#[derive(Debug)]
pub(super) struct DelayLine {
    grace: Duration,
    waiting: VecDeque<WaitingBatch>,
    changes: usize,
    bytes: usize,
    /// Where the feed was after the batch that was read last.
    end: FeedPosition,
}

#[derive(Debug)]
struct WaitingBatch {
    due: Instant,
    changes: Vec<Invalidation>,
    position: FeedPosition,
    bytes: usize,
}

impl DelayLine {
    /// Creates an empty line.
    pub(super) fn new(grace: Duration) -> Self {
        Self { grace, waiting: VecDeque::new(), changes: 0, bytes: 0, end: FeedPosition::default() }
    }

    /// Adds a batch that was read now. A batch without changes only moves the previous batch's position.
    pub(super) fn push(&mut self, changes: Vec<Invalidation>, position: FeedPosition) {
        self.end = position.clone();
        if changes.is_empty()
            && let Some(last) = self.waiting.back_mut()
        {
            last.position = FeedPosition { written: last.position.written, ..position };
            return;
        }
        let grace = if changes.is_empty() { Duration::ZERO } else { self.grace };
        let bytes = changes.iter().map(|change| size_of::<Invalidation>() + change.key.len()).sum();
        self.changes += changes.len();
        self.bytes += bytes;
        self.waiting.push_back(WaitingBatch { due: Instant::now() + grace, changes, position, bytes });
    }

    /// Whether no more batches may be read before the oldest batch was taken.
    pub(super) fn is_full(&self) -> bool {
        self.changes >= CHANGES_MAX || self.bytes >= BYTES_MAX
    }

    /// The time until the oldest batch is due. `None`: there is no batch.
    pub(super) fn until_due(&self) -> Option<Duration> {
        self.waiting.front().map(|oldest| oldest.due.saturating_duration_since(Instant::now()))
    }

    /// Takes the oldest batches that are due, with the position after them.
    pub(super) fn take_due(&mut self) -> Option<(Vec<Invalidation>, FeedPosition)> {
        let now = Instant::now();
        let mut taken = None::<(Vec<Invalidation>, FeedPosition)>;
        while self.waiting.front().is_some_and(|oldest| {
            let before = taken.as_ref().map_or(0, |(changes, _)| changes.len());
            oldest.due <= now && (before == 0 || before + oldest.changes.len() <= TAKEN_MAX)
        }) && let Some(oldest) = self.waiting.pop_front()
        {
            self.changes -= oldest.changes.len();
            self.bytes -= oldest.bytes;
            let mut changes = taken.map(|(changes, _)| changes).unwrap_or_default();
            changes.extend(oldest.changes);
            taken = Some((changes, oldest.position));
        }
        taken
    }

    /// When the oldest change was written that waits here, or may not be read yet. `None`: there is none.
    pub(super) fn oldest(&self) -> Option<SystemTime> {
        match self.waiting.front() {
            Some(oldest) => oldest.position.written,
            None => self.end.written.filter(|_| !self.end.is_at_end),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const GRACE: Duration = Duration::from_millis(250);

    fn changes(count: usize) -> Vec<Invalidation> {
        let change =
            |at: usize| Invalidation { namespace: "user", key: at.to_string(), version: None, copy: None };
        (0..count).map(change).collect()
    }

    fn at(mark: u8) -> FeedPosition {
        FeedPosition { mark: vec![mark], is_at_end: false, written: Some(SystemTime::UNIX_EPOCH) }
    }

    fn taken(line: &mut DelayLine) -> Option<(usize, Vec<u8>)> {
        line.take_due().map(|(changes, position)| (changes.len(), position.mark))
    }

    #[tokio::test(start_paused = true)]
    async fn batch_waits_for_grace_while_more_are_read() {
        let mut line = DelayLine::new(GRACE);
        line.push(changes(3), at(1));
        advance(GRACE / 2).await;
        line.push(changes(2), at(2));
        assert_eq!((taken(&mut line), line.until_due()), (None, Some(GRACE / 2)));
        advance(GRACE / 2).await;
        assert_eq!(taken(&mut line), Some((3, vec![1])));
        assert_eq!((taken(&mut line), line.until_due()), (None, Some(GRACE / 2)));
        advance(GRACE / 2).await;
        assert_eq!((taken(&mut line), taken(&mut line)), (Some((2, vec![2])), None));
    }

    #[tokio::test(start_paused = true)]
    async fn empty_batch_passes_no_waiting_change() {
        let mut line = DelayLine::new(GRACE);
        line.push(Vec::new(), at(1));
        assert_eq!(taken(&mut line), Some((0, vec![1])), "there is nothing to wait for");
        line.push(changes(1), at(2));
        line.push(Vec::new(), at(3));
        assert_eq!(taken(&mut line), None);
        advance(GRACE).await;
        assert_eq!(taken(&mut line), Some((1, vec![3])));
    }

    #[tokio::test(start_paused = true)]
    async fn line_is_bounded_in_changes_and_bytes() {
        let mut line = DelayLine::new(GRACE);
        for _ in 0..CHANGES_MAX / 256 {
            assert!(!line.is_full());
            line.push(changes(256), at(1));
        }
        assert!(line.is_full());
        advance(GRACE).await;
        assert_eq!(taken(&mut line).map(|(changes, _)| changes), Some(TAKEN_MAX));
        assert!(!line.is_full());
        let mut line = DelayLine::new(GRACE);
        line.push(vec![Invalidation { key: "k".repeat(BYTES_MAX), ..changes(1).remove(0) }], at(1));
        assert!(line.is_full());
        advance(GRACE).await;
        assert_eq!((taken(&mut line), line.bytes, line.is_full()), (Some((1, vec![1])), 0, false));
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_change_waits_or_is_not_read_yet() {
        let mut line = DelayLine::new(GRACE);
        assert_eq!(line.oldest(), None);
        line.push(changes(1), at(1));
        line.push(changes(1), FeedPosition { written: None, ..at(2) });
        assert_eq!(line.oldest(), at(1).written);
        advance(GRACE).await;
        line.take_due();
        assert_eq!(line.oldest(), None, "the time of the last one is unknown");
        line.push(changes(1), at(3));
        advance(GRACE).await;
        line.take_due();
        assert_eq!(line.oldest(), at(3).written, "those that follow are not older");
        line.push(Vec::new(), FeedPosition { is_at_end: true, ..at(4) });
        line.take_due();
        assert_eq!(line.oldest(), None);
    }
}
