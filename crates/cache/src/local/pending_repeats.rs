//! Writes of unknown outcome whose keys are invalidated again.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};

/// The writes of unknown outcome that wait for their repeated invalidations.
#[derive(Debug)]
pub(crate) struct PendingRepeats {
    pub(crate) places: Arc<Semaphore>,
    /// Until when flushes replace the repeated invalidations of writes beyond the limit; `None`: no flush is needed.
    pub(crate) flushing: Arc<Mutex<Option<Instant>>>,
}

impl PendingRepeats {
    pub(crate) fn new(places: usize) -> Self {
        let places = Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)));
        Self { places, flushing: Arc::default() }
    }
}
