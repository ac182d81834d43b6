//! Marks that wait on this node for their step.

use std::{collections::VecDeque, time::Duration};

use kith_cache::Token;
use kith_store::{Dialog, DialogKey, MARKS_AT_ONCE, MarkKind, Seq};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, timeout_at},
};

use crate::error::{Error, Reason};

/// How long the first mark of a step waits for others.
const GATHERED_FOR: Duration = Duration::from_millis(20);
/// Most marks that wait.
const WAITING_MAX: usize = 10_000;

/// A mark to be made.
#[derive(Clone, Debug)]
pub(crate) struct MarkWish {
    /// The dialog.
    pub(crate) key: DialogKey,
    /// The extent.
    pub(crate) kind: MarkKind,
    /// The first number of the current stay; `None`: the user is a former member.
    pub(crate) joined: Option<Seq>,
    /// The last number of the last stay of a former member.
    pub(crate) left: Option<Seq>,
    /// Whether the numbers are known to exist. Otherwise they are compared with the end of the log.
    pub(crate) exists: bool,
}

/// The result of a mark.
#[derive(Clone, Debug)]
pub(crate) struct Marked {
    /// The dialog after the mark, as known to this node: other devices may have made marks in between.
    pub(crate) dialog: Dialog,
    /// The token of the write; `None`: nothing was written.
    pub(crate) token: Option<Token>,
    /// The end of the log, if it was read for the mark; otherwise 0.
    pub(crate) end: Seq,
}

/// A mark and its waiting caller.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) wish: MarkWish,
    pub(super) answer: oneshot::Sender<Result<Marked, Error>>,
}

/// The marks that wait.
#[derive(Debug, Default)]
pub(super) struct WaitingMarks {
    queue: Mutex<Queue>,
    /// Notified when there are enough for a step.
    full: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    waiters: VecDeque<Waiter>,
    /// Whether a task takes steps.
    is_gathered: bool,
}

impl WaitingMarks {
    /// Queues a mark. Returns whether the caller must start the task that takes steps.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(super) fn push(&self, waiter: Waiter) -> Result<bool, Error> {
        let mut queue = self.queue.lock();
        if queue.waiters.len() >= WAITING_MAX {
            return Err(Error::new(Reason::Overloaded, "too many read marks wait on the node to be stored"));
        }
        queue.waiters.push_back(waiter);
        if queue.waiters.len() >= MARKS_AT_ONCE {
            self.full.notify_one();
        }
        Ok(!std::mem::replace(&mut queue.is_gathered, true))
    }

    /// Takes the next step, of at most [`MARKS_AT_ONCE`] marks: when so many wait, or [`GATHERED_FOR`] later. The
    /// second value is whether others wait; if not, the next mark starts a task again.
    pub(super) async fn step(&self) -> (Vec<Waiter>, bool) {
        let until = Instant::now() + GATHERED_FOR;
        while self.queue.lock().waiters.len() < MARKS_AT_ONCE {
            if timeout_at(until, self.full.notified()).await.is_err() {
                break;
            }
        }
        let mut queue = self.queue.lock();
        let count = queue.waiters.len().min(MARKS_AT_ONCE);
        let step = queue.waiters.drain(..count).collect();
        queue.is_gathered = !queue.waiters.is_empty();
        (step, queue.is_gathered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(user: usize) -> Waiter {
        let wish = MarkWish {
            key: format!("{user},g9").parse().unwrap(),
            kind: MarkKind::UpTo(1),
            joined: Some(1),
            left: None,
            exists: true,
        };
        Waiter { wish, answer: oneshot::channel().0 }
    }

    fn fill(waiting: &WaitingMarks, count: usize) {
        for user in 1..=count {
            waiting.push(waiter(user)).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn first_mark_waits_20_ms_for_others() {
        let waiting = WaitingMarks::default();
        assert!(waiting.push(waiter(1)).unwrap(), "a task has to begin");
        assert!(!waiting.push(waiter(2)).unwrap());
        let begun = Instant::now();
        let (step, others) = waiting.step().await;
        assert_eq!((step.len(), others), (2, false));
        assert_eq!(begun.elapsed(), GATHERED_FOR);
        assert!(waiting.push(waiter(3)).unwrap(), "the task has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn full_step_waits_for_none() {
        let waiting = WaitingMarks::default();
        fill(&waiting, 2 * MARKS_AT_ONCE + 1);
        let begun = Instant::now();
        let steps = [waiting.step().await, waiting.step().await];
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(steps.iter().all(|(step, others)| step.len() == MARKS_AT_ONCE && *others));
        let (step, others) = waiting.step().await;
        assert_eq!((step.len(), others, begun.elapsed()), (1, false, GATHERED_FOR));
    }

    #[tokio::test(start_paused = true)]
    async fn step_begins_when_it_is_full() {
        let waiting = WaitingMarks::default();
        waiting.push(waiter(1)).unwrap();
        let begun = Instant::now();
        let (step, _) = tokio::join!(waiting.step(), async {
            tokio::time::sleep(GATHERED_FOR / 2).await;
            fill(&waiting, MARKS_AT_ONCE);
        });
        assert_eq!((step.0.len(), begun.elapsed()), (MARKS_AT_ONCE, GATHERED_FOR / 2));
    }

    #[test]
    fn too_many_marks_are_refused() {
        let waiting = WaitingMarks::default();
        fill(&waiting, WAITING_MAX);
        assert_eq!(waiting.push(waiter(1)).unwrap_err().reason(), Reason::Overloaded);
    }
}
