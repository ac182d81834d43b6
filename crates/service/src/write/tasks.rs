//! A node's background tasks, until it stops.

use std::{fmt, future::Future, mem};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::task::JoinSet;

/// Tasks that end with this.
#[derive(Debug, Default)]
pub struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    /// Starts a task. Must be called within a runtime.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.lock().spawn(task);
    }

    /// Ends them all, each at its next await. When this returns none runs: what they use, such as the store,
    /// may be closed.
    pub async fn end(&self) {
        let mut begun = mem::take(&mut *self.0.lock());
        begun.shutdown().await;
    }
}

/// Work that a node does in the background. It stops when this is dropped.
pub struct BackgroundJob {
    /// The work, which is taken when it starts.
    work: Mutex<Vec<BoxFuture<'static, ()>>>,
    tasks: Tasks,
}

impl BackgroundJob {
    /// A job that runs each of these in its own task.
    pub(crate) fn new(work: impl IntoIterator<Item = BoxFuture<'static, ()>>) -> Self {
        Self { work: Mutex::new(work.into_iter().collect()), tasks: Tasks::default() }
    }

    /// Starts it, once. Must be called within a runtime.
    pub fn start(&self) {
        mem::take(&mut *self.work.lock()).into_iter().for_each(|work| self.tasks.spawn(work));
    }

    /// Stops it. A write that is in progress runs to its end.
    pub async fn stop(&self) {
        self.tasks.end().await;
    }
}

impl fmt::Debug for BackgroundJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundJob").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    };

    use super::*;

    /// Regression: a background job that asked a store which was already closed reported that the store is
    /// unavailable.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn running_task_has_ended_when_all_have() {
        let (tasks, rests) = (Tasks::default(), Arc::new(AtomicBool::new(false)));
        let (at_work, is_at_work) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        tasks.spawn({
            let rests = Arc::clone(&rests);
            async move {
                at_work.send(()).ok();
                goes_on.recv().ok();
                rests.store(true, Ordering::Release);
                std::future::pending::<()>().await;
            }
        });
        tokio::task::spawn_blocking(move || is_at_work.recv()).await.ok();
        let mut end = Box::pin(tasks.end());
        assert!(futures::poll!(&mut end).is_pending(), "it is still at work");
        go_on.send(()).ok();
        end.await;
        assert!(rests.load(Ordering::Acquire));
        assert!(tasks.0.lock().is_empty());
    }
}
