//! What was turned away.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use metrics::Counter;

use crate::metric::Metric;

/// A count of a metric that can be read too; the recorder of metrics cannot. Clones count together.
#[derive(Clone, Debug)]
pub struct Shed {
    counter: Counter,
    number: Arc<AtomicU64>,
}

impl Shed {
    /// Nothing yet. The metric goes to the recorder that is installed now.
    pub fn of(metric: &Metric) -> Self {
        Self { counter: metrics::counter!(metric.name), number: Arc::default() }
    }

    /// Counts one.
    pub fn one_more(&self) {
        self.counter.increment(1);
        self.number.fetch_add(1, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}
