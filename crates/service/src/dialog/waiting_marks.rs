//! Marks that wait on this node for their step.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use kith_cache::Token;
use kith_store::{Dialog, DialogKey, MARKS_AT_ONCE, MarkKind, Seq};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, timeout_at},
};

use super::HeadAfter;
use crate::error::{Error, Reason};

/// The longest time that a mark waits for others.
const GATHERED_FOR: Duration = Duration::from_millis(20);
/// A step begins at once while fewer steps than this are being made.
const STEPS_AT_ONCE: usize = 2;
/// The most marks that may wait.
const WAITING_MAX: usize = 10_000;

/// A mark to be made.
#[derive(Clone, Debug)]
pub(crate) struct MarkRequest {
    /// The dialog to be marked.
    pub(crate) key: DialogKey,
    /// Which messages the mark covers.
    pub(crate) kind: MarkKind,
    /// The first number of the current stay; `None`: the user is a former member.
    pub(crate) joined: Option<Seq>,
    /// The last number that the user may ever read: the end of a former member's last stay, or the limit in
    /// its dialog. Higher numbers are not marked, and not compared with the log's end, which the user must
    /// not learn. `None`: the user may read up to the end.
    pub(crate) last: Option<Seq>,
    /// Whether the numbers are known to exist, because the mark belongs to a sender; then no caller waits for
    /// it. Other numbers are compared with the log's end.
    pub(crate) exists: bool,
    /// Whether the mark is imported: no user is notified.
    pub(crate) imported: bool,
}

/// The result of a mark.
#[derive(Clone, Debug)]
pub(crate) struct MarkResult {
    /// The dialog after the mark, as known to this node: other devices may have made marks in between.
    pub(crate) dialog: Dialog,
    /// The token of the write; `None`: nothing was written.
    pub(crate) token: Option<Token>,
    /// The end of the log, if it was read for the mark; otherwise 0.
    pub(crate) end: Seq,
    /// The head, read after the mark, if the log has messages above it. `None`: there are no such messages,
    /// or the head could not be read.
    pub(crate) head: Option<HeadAfter>,
}

/// A mark and its waiting caller.
#[derive(Debug)]
pub(super) struct MarkWaiter {
    pub(super) request: MarkRequest,
    pub(super) answer: oneshot::Sender<Result<MarkResult, Error>>,
}

/// Marks that are made together.
#[derive(Debug)]
pub(super) struct MarkStep {
    pub(super) waiters: Vec<MarkWaiter>,
    /// Whether others wait; if not, the next mark begins a task again.
    pub(super) others_wait: bool,
    /// Must be dropped when the step has been made.
    pub(super) running: RunningStep,
}

/// A step that is being made.
#[derive(Debug)]
pub(super) struct RunningStep(Arc<WaitingMarks>);

/// The marks that wait.
#[derive(Debug, Default)]
pub(super) struct WaitingMarks {
    queue: Mutex<MarkWaitQueue>,
    /// Notified when a step may begin.
    may_begin: Notify,
}

#[derive(Debug, Default)]
struct MarkWaitQueue {
    waiters: VecDeque<MarkWaiter>,
    /// Whether a task takes steps.
    has_task: bool,
    /// Steps that are being made.
    running: usize,
}

impl MarkWaitQueue {
    /// Whether a step begins at once: when [`MARKS_AT_ONCE`] marks wait, or when a caller waits and fewer
    /// than [`STEPS_AT_ONCE`] steps are being made. Senders' marks, for which no caller waits, are in the
    /// same step.
    fn may_begin(&self) -> bool {
        self.waiters.len() >= MARKS_AT_ONCE
            || (self.running < STEPS_AT_ONCE && self.waiters.iter().any(|waiter| !waiter.request.exists))
    }
}

impl WaitingMarks {
    /// Queues a mark. Returns whether the caller must start the task that takes steps.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(super) fn push(&self, waiter: MarkWaiter) -> Result<bool, Error> {
        let mut queue = self.queue.lock();
        if queue.waiters.len() >= WAITING_MAX {
            return Err(Error::new(Reason::Overloaded, "too many read marks wait on the node to be stored"));
        }
        queue.waiters.push_back(waiter);
        if queue.may_begin() {
            self.may_begin.notify_one();
        }
        Ok(!std::mem::replace(&mut queue.has_task, true))
    }

    /// Takes the next step, with at most [`MARKS_AT_ONCE`] marks: when that many wait, when a caller waits
    /// and few steps are being made, or after [`GATHERED_FOR`].
    pub(super) async fn step(self: &Arc<Self>) -> MarkStep {
        let until = Instant::now() + GATHERED_FOR;
        while !self.queue.lock().may_begin() {
            if timeout_at(until, self.may_begin.notified()).await.is_err() {
                break;
            }
        }
        let mut queue = self.queue.lock();
        let count = queue.waiters.len().min(MARKS_AT_ONCE);
        let waiters = queue.waiters.drain(..count).collect();
        queue.has_task = !queue.waiters.is_empty();
        queue.running += 1;
        MarkStep { waiters, others_wait: queue.has_task, running: RunningStep(Arc::clone(self)) }
    }
}

impl Drop for RunningStep {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.running -= 1;
        if queue.may_begin() {
            self.0.may_begin.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mark that a caller waits for.
    fn asked(user: usize) -> MarkWaiter {
        waiter(user, false)
    }

    /// A mark of a sender.
    fn own(user: usize) -> MarkWaiter {
        waiter(user, true)
    }

    fn waiter(user: usize, exists: bool) -> MarkWaiter {
        let request = MarkRequest {
            key: format!("{user},g9").parse().unwrap(),
            kind: MarkKind::UpTo(1),
            joined: Some(1),
            last: None,
            exists,
            imported: false,
        };
        MarkWaiter { request, answer: oneshot::channel().0 }
    }

    fn fill(waiting: &WaitingMarks, count: usize) {
        for user in 1..=count {
            waiting.push(own(user)).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn mark_begins_at_once_while_few_are_being_made() {
        let waiting = Arc::<WaitingMarks>::default();
        assert!(waiting.push(own(1)).unwrap(), "a task has to begin");
        assert!(!waiting.push(asked(2)).unwrap());
        let begun = Instant::now();
        let step = waiting.step().await;
        assert_eq!((step.waiters.len(), step.others_wait, begun.elapsed()), (2, false, Duration::ZERO));
        assert!(waiting.push(asked(3)).unwrap(), "the task has ended");
        let second = waiting.step().await;
        assert_eq!((second.waiters.len(), begun.elapsed()), (1, Duration::ZERO), "beside the first one");
    }

    /// Starts as many steps as may begin at once.
    async fn busy(waiting: &Arc<WaitingMarks>) -> Vec<MarkStep> {
        let mut steps = Vec::new();
        for user in 1..=STEPS_AT_ONCE {
            waiting.push(asked(user)).unwrap();
            steps.push(waiting.step().await);
        }
        steps
    }

    #[tokio::test(start_paused = true)]
    async fn marks_wait_for_the_steps_that_are_being_made() {
        let waiting = Arc::<WaitingMarks>::default();
        let mut steps = busy(&waiting).await;
        waiting.push(asked(2)).unwrap();
        let begun = Instant::now();
        let (step, ()) = tokio::join!(waiting.step(), async {
            tokio::time::sleep(GATHERED_FOR / 4).await;
            waiting.push(asked(3)).unwrap();
            tokio::time::sleep(GATHERED_FOR / 4).await;
            drop(steps.pop());
        });
        assert_eq!((step.waiters.len(), begun.elapsed()), (2, GATHERED_FOR / 2));
    }

    #[tokio::test(start_paused = true)]
    async fn marks_wait_20_ms_for_steps_that_take_longer() {
        let waiting = Arc::<WaitingMarks>::default();
        let _steps = busy(&waiting).await;
        waiting.push(asked(2)).unwrap();
        let begun = Instant::now();
        assert_eq!((waiting.step().await.waiters.len(), begun.elapsed()), (1, GATHERED_FOR));
    }

    #[tokio::test(start_paused = true)]
    async fn marks_of_senders_wait_20_ms_for_others() {
        let waiting = Arc::<WaitingMarks>::default();
        fill(&waiting, 2);
        let begun = Instant::now();
        let step = waiting.step().await;
        assert_eq!((step.waiters.len(), step.others_wait, begun.elapsed()), (2, false, GATHERED_FOR));
    }

    #[tokio::test(start_paused = true)]
    async fn full_step_waits_for_none() {
        let waiting = Arc::<WaitingMarks>::default();
        fill(&waiting, 2 * MARKS_AT_ONCE + 1);
        let begun = Instant::now();
        let steps = [waiting.step().await, waiting.step().await];
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(steps.iter().all(|step| step.waiters.len() == MARKS_AT_ONCE && step.others_wait));
        let last = waiting.step().await;
        assert_eq!((last.waiters.len(), last.others_wait, begun.elapsed()), (1, false, GATHERED_FOR));
    }

    #[tokio::test(start_paused = true)]
    async fn step_begins_when_it_is_full() {
        let waiting = Arc::<WaitingMarks>::default();
        fill(&waiting, 1);
        let begun = Instant::now();
        let (step, ()) = tokio::join!(waiting.step(), async {
            tokio::time::sleep(GATHERED_FOR / 2).await;
            fill(&waiting, MARKS_AT_ONCE);
        });
        assert_eq!((step.waiters.len(), begun.elapsed()), (MARKS_AT_ONCE, GATHERED_FOR / 2));
    }

    #[test]
    fn too_many_marks_are_refused() {
        let waiting = WaitingMarks::default();
        fill(&waiting, WAITING_MAX);
        assert_eq!(waiting.push(own(1)).unwrap_err().reason(), Reason::Overloaded);
    }
}
