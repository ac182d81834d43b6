//! Tokio's virtual time as the clock of nodes.

use kith_cache::{Clock, Moment};
use tokio::time::Instant;

/// Counts from this instant.
#[derive(Debug)]
pub(crate) struct VirtualClock(pub(crate) Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Moment {
        Moment::new(u64::try_from(self.0.elapsed().as_millis()).unwrap())
    }
}
