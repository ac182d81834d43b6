//! Nodes, progress and events, which a row's tasks share.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use rand::{SeedableRng as _, rngs::SmallRng};
use tonic::{Request, Response, Status, transport::Channel};

use super::{
    outcomes::{FailedCalls, Violations},
    progress::Progress,
};
use crate::faults::{Better, Figure, answered::until_answered, figure::float};

/// A row's tasks act through the nodes, add what they see, and end with the progress.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) nodes: Vec<Channel>,
    pub(super) progress: Progress,
    seed: u64,
    values: AtomicU64,
    seen: Mutex<SeenEvents>,
}

/// The tasks' events: counts by name, violations by kind, failed calls by code.
#[derive(Debug, Default)]
struct SeenEvents {
    counts: BTreeMap<&'static str, u64>,
    violations: Violations,
    failed: FailedCalls,
}

impl Workload {
    /// A workload that needs `goal` events, such as `writes are acknowledged`.
    pub(super) fn new(nodes: Vec<Channel>, seed: u64, event: &'static str, goal: u64) -> Arc<Self> {
        let (values, seen) = (AtomicU64::new(1), Mutex::default());
        Arc::new(Self { nodes, progress: Progress::new(event, goal), seed, values, seen })
    }

    /// Random numbers for the task with this number. They follow from the row's seed.
    pub(super) fn random(&self, task: i64) -> SmallRng {
        SmallRng::seed_from_u64(self.seed.wrapping_add(task.cast_unsigned()))
    }

    /// A number that no other task gets, from 1 on.
    pub(super) fn value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds to the count with this name.
    pub(super) fn count(&self, name: &'static str, count: u64) {
        *self.seen.lock().counts.entry(name).or_default() += count;
    }

    pub(super) fn counted(&self, name: &str) -> u64 {
        self.seen.lock().counts.get(name).copied().unwrap_or_default()
    }

    /// Adds a failed call with this code.
    pub(super) fn fail(&self, code: &str) {
        self.seen.lock().failed.add(code);
    }

    pub(super) fn add_violation(&self, kind: &'static str, about: impl FnOnce() -> String) {
        self.seen.lock().violations.add(kind, about);
    }

    /// Sends a request until a node answers or refuses it, first through this node. Returns also how often it
    /// was sent.
    pub(super) async fn call<Q, A, F>(
        &self,
        first: usize,
        request: Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> (Result<A, Status>, u64)
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let sent = AtomicU64::new(0);
        let answered = until_answered(&self.nodes, first, request, |node, request| {
            sent.fetch_add(1, Ordering::Relaxed);
            send(node, request)
        });
        (answered.await, sent.into_inner())
    }

    /// The progress, which must reach its goal.
    pub(super) fn done(&self, name: &str) -> Figure {
        Figure::at_least_count(name, self.progress.done(), self.progress.goal())
    }

    /// One figure without a target for each of these counts.
    pub(super) fn counts<const NAMES: usize>(&self, names: [&'static str; NAMES]) -> [Figure; NAMES] {
        names.map(|name| Figure::count(name, self.counted(name)))
    }

    /// One figure for each of these kinds, which must be 0.
    pub(super) fn violations<const KINDS: usize>(&self, kinds: [&'static str; KINDS]) -> [Figure; KINDS] {
        self.seen.lock().violations.figures(kinds)
    }

    /// How many calls failed, and with which codes that no disturbance explains.
    pub(super) fn failures(&self) -> Vec<Figure> {
        let seen = self.seen.lock();
        let count = float(seen.failed.count);
        let count = Figure::without_target("calls failed", "count", count, Better::Lower);
        [vec![count], seen.failed.figures()].concat()
    }
}
