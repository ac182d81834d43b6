//! Monotonic time for expiry and trust, by a trait that tests can implement. Wall-clock time is for display
//! and measurement only.

use std::{
    fmt::Debug,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A point in monotonic time: milliseconds since the start of the clock it came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// A moment that is later than every other moment.
    pub const NEVER: Self = Self(u64::MAX);

    /// This many milliseconds after the start of the clock.
    #[must_use]
    pub const fn new(milliseconds: u64) -> Self {
        Self(milliseconds)
    }

    /// Milliseconds since the start of the clock.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The moment this much later; [`Moment::NEVER`] stays.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(milliseconds(time)))
    }

    /// Time since an earlier moment; zero if that is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// The clock by which copies expire and trust ends. Never decides an order between values.
///
/// Read at every memory hit: it must be cheap, must not block, and must be monotonic. It must continue while
/// the process is stopped, or a node that resumes would serve what it may no longer trust.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The present time.
    fn now(&self) -> Moment;
}

/// The monotonic clock of the machine, counted from its creation.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// A clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment(milliseconds(self.0.elapsed()))
    }
}

/// Whole milliseconds; the largest number if they are more.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000).saturating_add(u64::from(time.subsec_millis()))
}

/// Milliseconds since 1970 by the clock of the machine: for display and measurement, never for order.
pub(crate) fn wall_clock_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, milliseconds)
}
