//! Step notes that wait for a call. Notes that begin while a call is in flight become one call together, and
//! notes for ended steps are removed once a second.

use std::collections::VecDeque;

use kith_delivery::FanOutNotes;
use kith_store::FanOutNote;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Flight, Notify, oneshot};

/// The most notes in a call: a script with more would keep others waiting.
pub(super) const AT_ONCE: usize = 1_000;
/// The most notes for ended steps that wait. More only wait while Redis is away; they are left to the node
/// that looks for notes.
const ENDED_MAX: usize = 10_000;

/// The notes for steps that begin.
#[derive(Debug, Default)]
pub(super) struct BegunNotes {
    waiting: Mutex<VecDeque<BegunNote>>,
    /// Held by the caller whose call is in flight.
    flight: Flight<()>,
}

/// A note, and the caller that waits until it is written.
#[derive(Debug)]
struct BegunNote {
    note: FanOutNote,
    is_written: oneshot::Sender<bool>,
}

/// The notes for ended steps.
#[derive(Debug, Default)]
pub(super) struct EndedNotes {
    waiting: Mutex<VecDeque<EndedNote>>,
    added: Notify,
}

#[derive(Debug)]
pub(super) struct EndedNote {
    pub(super) note: FanOutNote,
    /// Whether the store has it, too.
    pub(super) is_in_store: bool,
}

impl BegunNotes {
    /// Writes a note, together with those that wait. Returns whether it is written; it may be written also if
    /// this is false.
    pub(super) async fn write(&self, keeper: &dyn FanOutNotes, note: FanOutNote) -> bool {
        let (is_written, mut written) = oneshot::channel();
        self.waiting.lock().push_back(BegunNote { note, is_written });
        let _flight = tokio::select! {
            biased;
            written = &mut written => return written.unwrap_or(false),
            flight = self.flight.lock() => flight,
        };
        loop {
            match written.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => self.write_some(keeper).await,
                written => return written.unwrap_or(false),
            }
        }
    }

    async fn write_some(&self, keeper: &dyn FanOutNotes) {
        let (notes, callers): (Vec<_>, Vec<_>) = {
            let mut waiting = self.waiting.lock();
            let count = waiting.len().min(AT_ONCE);
            waiting.drain(..count).map(|begun| (begun.note, begun.is_written)).unzip()
        };
        let is_written = keeper.begin(&notes).await.is_ok();
        for caller in callers {
            caller.send(is_written).ok();
        }
    }
}

impl EndedNotes {
    pub(super) fn add(&self, ended: impl IntoIterator<Item = EndedNote>) {
        let mut waiting = self.waiting.lock();
        let had_room = waiting.len() < ENDED_MAX;
        let room = ENDED_MAX - waiting.len();
        waiting.extend(ended.into_iter().take(room));
        if had_room && waiting.len() == ENDED_MAX {
            tracing::warn!("delivered messages are delivered again: too many notes of them wait for Redis");
        }
        self.added.notify_one();
    }

    /// Returns when notes were added.
    pub(super) async fn added(&self) {
        self.added.notified().await;
    }

    /// A call's notes.
    pub(super) fn take(&self) -> Vec<EndedNote> {
        let mut waiting = self.waiting.lock();
        let count = waiting.len().min(AT_ONCE);
        waiting.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use async_trait::async_trait;
    use futures::future::join_all;
    use kith_cache::remote::SharedError;
    use kith_store::DueNote;
    use tokio::time::sleep;

    use super::{super::super::sample::group, *};

    /// Records the calls' sizes. Each takes a while, and the second one fails.
    #[derive(Debug, Default)]
    struct SlowNotes(Mutex<Vec<usize>>);

    #[async_trait]
    impl FanOutNotes for SlowNotes {
        async fn begin(&self, notes: &[FanOutNote]) -> Result<(), SharedError> {
            sleep(Duration::from_millis(1)).await;
            let mut calls = self.0.lock();
            calls.push(notes.len());
            if calls.len() == 2 { Err(SharedError::Timeout) } else { Ok(()) }
        }

        async fn end(&self, _: &[FanOutNote]) -> Result<(), SharedError> {
            unreachable!("none has ended")
        }

        async fn due(&self, _: Duration, _: usize) -> Result<Vec<DueNote>, SharedError> {
            unreachable!("none is looked for")
        }
    }

    fn note(step: u64) -> FanOutNote {
        FanOutNote { conversation: group(9), node: "node".parse().unwrap(), step }
    }

    #[tokio::test(start_paused = true)]
    async fn notes_that_wait_for_a_call_are_one_call() {
        let (notes, keeper) = (BegunNotes::default(), SlowNotes::default());
        let written = join_all((0..2_500).map(|step| notes.write(&keeper, note(step)))).await;
        // The first caller finds its own note alone.
        assert_eq!(*keeper.0.lock(), [1, 1_000, 1_000, 499]);
        let failed = written.iter().filter(|is_written| !**is_written).count();
        assert_eq!(failed, 1_000, "those of the call that failed");
    }

    #[tokio::test(start_paused = true)]
    async fn caller_that_goes_away_leaves_the_flight() {
        let (notes, keeper) = (Arc::<BegunNotes>::default(), Arc::<SlowNotes>::default());
        let first = {
            let (notes, keeper) = (Arc::clone(&notes), Arc::clone(&keeper));
            tokio::spawn(async move { notes.write(&*keeper, note(1)).await })
        };
        tokio::task::yield_now().await;
        first.abort();
        assert!(notes.write(&*keeper, note(2)).await);
        assert_eq!(*keeper.0.lock(), [1]);
    }

    #[test]
    fn ended_notes_that_wait_are_bounded() {
        let notes = EndedNotes::default();
        let ended = |step| EndedNote { note: note(step), is_in_store: false };
        notes.add((0..9_999).map(ended));
        notes.add([ended(9_999), ended(10_000)]);
        notes.add([ended(10_001)]);
        let taken: Vec<usize> =
            std::iter::repeat_with(|| notes.take().len()).take_while(|len| *len > 0).collect();
        assert_eq!(taken, [AT_ONCE; 10]);
    }
}
