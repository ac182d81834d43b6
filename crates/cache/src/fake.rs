//! Clock, randomness and bus for tests.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use crate::{Acknowledge, Bus, BusError, Clock, Invalidation, LocalBus, Moment, Node, Position, Random};

/// A clock that a test advances. Its clones are one clock.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Starts at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Advances it, by whole milliseconds.
    pub fn advance(&self, time: Duration) {
        self.0.fetch_add(crate::api::clock::milliseconds(time), Ordering::AcqRel);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment::new(self.0.load(Ordering::Acquire))
    }
}

/// Returns given numbers repeatedly.
#[derive(Debug)]
pub struct Sequence(Mutex<VecDeque<f64>>);

impl Sequence {
    /// Returns these repeatedly, each from 0 to below 1; zero if there are none.
    pub fn new(numbers: impl IntoIterator<Item = f64>) -> Self {
        Self(Mutex::new(numbers.into_iter().collect()))
    }
}

impl Random for Sequence {
    fn unit(&self) -> f64 {
        let mut numbers = self.0.lock();
        let number = numbers.pop_front().unwrap_or_default();
        numbers.push_back(number);
        number
    }
}

/// A local bus that records publications and can be made to fail.
#[derive(Debug, Default)]
pub struct RecordingBus {
    bus: LocalBus,
    published: Mutex<Vec<Invalidation>>,
    failing: Mutex<bool>,
}

impl RecordingBus {
    /// Creates a working bus.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether publishing fails.
    pub fn fail(&self, failing: bool) {
        *self.failing.lock() = failing;
    }

    /// The publications, in order.
    #[must_use]
    pub fn published(&self) -> Vec<Invalidation> {
        self.published.lock().clone()
    }
}

#[async_trait::async_trait]
impl Bus for RecordingBus {
    async fn publish(
        &self,
        node: &Node,
        changes: &[Invalidation],
        acknowledge: Acknowledge,
    ) -> Result<Position, BusError> {
        if *self.failing.lock() {
            return Err(BusError::new(std::io::Error::from(std::io::ErrorKind::NotConnected)));
        }
        self.published.lock().extend_from_slice(changes);
        self.bus.publish(node, changes, acknowledge).await
    }
}
