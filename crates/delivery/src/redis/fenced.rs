//! Scripts on an epoch's server.

use std::{fmt, sync::Arc};

use kith_cache::remote::{
    SharedError,
    redis::{Reply, ScriptCall, ScriptRunner},
};
use kith_store::Epoch;

use crate::EpochSource;

/// Runs scripts in the epoch that the node follows. Only answers from that epoch's server count. A call ends
/// within its runner's command timeout.
pub(crate) struct FencedRunner {
    runner: Arc<ScriptRunner>,
    epochs: Arc<dyn EpochSource>,
}

impl FencedRunner {
    /// Creates it over a runner's connections, which others may use too.
    pub(crate) fn over(runner: Arc<ScriptRunner>, epochs: Arc<dyn EpochSource>) -> Self {
        Self { runner, epochs }
    }

    /// The epoch that the node follows, with its server.
    ///
    /// # Errors
    /// When it follows none.
    pub(crate) fn followed_epoch(&self) -> Result<Epoch, SharedError> {
        self.epochs.followed_epoch().ok_or(SharedError::Unavailable)
    }

    /// See [`EpochSource::settled_epoch`].
    pub(crate) async fn settled_epoch(&self) -> Option<u64> {
        self.epochs.settled_epoch().await
    }

    /// See [`ScriptRunner::has_slots`].
    pub(crate) fn has_slots(&self) -> bool {
        self.runner.has_slots()
    }

    /// Runs scripts in one round trip. Returns an answer for each, in their order.
    pub(crate) async fn run(
        &self,
        epoch: &Epoch,
        calls: &[ScriptCall<'_>],
    ) -> Vec<Result<Reply, SharedError>> {
        self.runner.run_accepted(calls, |server| server == epoch.server).await
    }

    /// Runs one script.
    pub(crate) async fn one(&self, epoch: &Epoch, call: ScriptCall<'_>) -> Result<Reply, SharedError> {
        self.run(epoch, &[call]).await.pop().unwrap_or(Err(SharedError::Unexpected))
    }

    pub(crate) const fn runner(&self) -> &Arc<ScriptRunner> {
        &self.runner
    }
}

impl fmt::Debug for FencedRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedRunner").field("runner", &self.runner).finish_non_exhaustive()
    }
}

/// The answers to this many calls on a node that follows no epoch.
pub(crate) fn unavailable<T>(count: usize) -> Vec<Result<T, SharedError>> {
    (0..count).map(|_| Err(SharedError::Unavailable)).collect()
}
