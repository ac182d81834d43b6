//! Counts refused work.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use metrics::Counter;

use crate::metric::Metric;

/// A metric that can also be read, unlike the recorder of metrics. Clones share one count.
#[derive(Clone, Debug)]
pub struct ShedCounter {
    counter: Counter,
    number: Arc<AtomicU64>,
}

impl ShedCounter {
    /// Creates a counter at 0. The metric goes to the recorder that is installed now.
    pub fn of(metric: &Metric) -> Self {
        Self { counter: metrics::counter!(metric.name), number: Arc::default() }
    }

    /// Counts one event.
    pub fn increment(&self) {
        self.counter.increment(1);
        self.number.fetch_add(1, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}
