//! The progress of a row's callers, and how they are ended.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

/// Maximum number of lines about a run's progress.
const LINES: u64 = 10;
/// A row's time limit, longer than any row takes in a healthy laboratory.
pub(super) const LONGEST: Duration = Duration::from_secs(60 * 60);

/// The progress that callers share, and whether they have to end.
#[derive(Debug)]
pub(super) struct Progress {
    /// The counted events, with their verb: `writes are acknowledged`.
    name: &'static str,
    goal: u64,
    done: AtomicU64,
    is_ended: AtomicBool,
}

impl Progress {
    pub(super) const fn new(name: &'static str, goal: u64) -> Self {
        Self { name, goal, done: AtomicU64::new(0), is_ended: AtomicBool::new(false) }
    }

    pub(super) const fn goal(&self) -> u64 {
        self.goal
    }

    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Adds to the count, and prints it about ten times in a run.
    pub(super) fn add(&self, count: u64) {
        let before = self.done.fetch_add(count, Ordering::Relaxed);
        let (after, step) = (before + count, self.goal.div_ceil(LINES).max(1));
        if before / step < after / step && before < self.goal {
            eprintln!("{after} {} of {}", self.name, self.goal);
        }
    }

    pub(super) fn has_enough(&self) -> bool {
        self.done() >= self.goal
    }

    /// Asks the callers to end.
    pub(super) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    /// Whether callers that make no progress beyond the goal have to end.
    pub(super) fn is_over(&self) -> bool {
        self.is_ended() || self.has_enough()
    }
}

/// Runs a disturbance to its end while callers call, then ends the callers. Returns both results, and how
/// long the disturbance lasted.
///
/// # Errors
/// Errors from the disturbance and from the callers, or if the disturbance takes longer than [`LONGEST`].
pub(super) async fn disturb<T, C: 'static>(
    progress: &Progress,
    calling: JoinSet<Result<C>>,
    disturbance: impl Future<Output = Result<T>>,
) -> Result<(T, Vec<C>, Duration)> {
    let began = Instant::now();
    let disturbed = timeout(LONGEST, disturbance).await;
    let took = began.elapsed();
    progress.end();
    let called = all_ended(calling).await?;
    let too_few = || format!("only {} {} of {}", progress.done(), progress.name, progress.goal);
    Ok((disturbed.with_context(too_few)??, called, took))
}

/// The tasks' results, or the first error.
pub(super) async fn all_ended<T: 'static>(mut tasks: JoinSet<Result<T>>) -> Result<Vec<T>> {
    let mut results = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        results.push(ended??);
    }
    Ok(results)
}
