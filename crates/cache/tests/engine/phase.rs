//! Nodes that are paused while time goes on, and nodes that die: between any two steps in their tasks.

use std::{future::Future, pin::pin, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Whether a node runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Runs,
    /// Paused like a process after SIGSTOP.
    Paused,
    /// Dead like a process after SIGKILL.
    Dead,
}

/// A node's phase; the clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phases(Arc<(Mutex<Phase>, Notify)>);

impl Phases {
    /// The dead stay dead.
    pub(crate) fn set(&self, phase: Phase) {
        let mut now = self.0.0.lock();
        if *now != Phase::Dead && *now != phase {
            *now = phase;
            // Wakes tasks in the order in which they wait, so that a run can be replayed; a tokio channel
            // does not.
            self.0.1.notify_waiters();
        }
    }

    pub(crate) fn get(&self) -> Phase {
        *self.0.0.lock()
    }

    async fn until(&self, is: impl Fn(Phase) -> bool) -> Phase {
        loop {
            let mut changed = pin!(self.0.1.notified());
            changed.as_mut().enable();
            let phase = self.get();
            if is(phase) {
                return phase;
            }
            changed.await;
        }
    }

    /// Returns while the node runs, waits while it is paused; never returns once it is dead.
    pub(crate) async fn runs(&self) {
        self.until(|phase| phase == Phase::Runs).await;
    }

    /// Takes the steps of a task only while the node runs. `None`: it died, and the task was dropped where it
    /// was.
    pub(crate) async fn live<F: Future>(&self, task: F) -> Option<F::Output> {
        let mut task = pin!(task);
        loop {
            tokio::select! {
                biased;
                _stopped = self.until(|phase| phase != Phase::Runs) => {}
                output = &mut task => return Some(output),
            }
            if self.until(|phase| phase != Phase::Paused).await == Phase::Dead {
                return None;
            }
        }
    }
}
