//! The clock of a process: its machine's clock, corrected by the store's clock.
//!
//! All stored times come from [`Timestamp::now`], so nodes whose machines disagree write the same time. The
//! correction belongs to the process, like the machine's clock. Expiry in memory and trust use monotonic time
//! and are not affected.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use crate::{Timestamp, millis};

/// How far the clocks of a machine and the store may be apart before a node does not remove anything by its
/// age.
pub const CLOCKS_APART_MAX: Duration = Duration::from_secs(30);

/// A question that took longer than this says too little about the store's clock.
const ASKED_MAX: Duration = Duration::from_millis(500);
/// Differences below this are scheduling noise: the correction does not follow them.
const UNCERTAIN_LEAST_MS: i64 = 20;

/// How far the machine's clock is ahead of the store's, in milliseconds. Negative: behind.
static AHEAD_MS: AtomicI64 = AtomicI64::new(0);

/// The difference between this machine's clock and the store's clock, as one question found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockDifference {
    ahead_ms: i64,
    uncertain_ms: i64,
}

impl ClockDifference {
    /// Computes the difference from a question that was sent at `asked` (by the machine's clock), took
    /// `took`, and was answered with the store's time. `None`: it took too long.
    #[must_use]
    pub fn measured(asked: Timestamp, took: Duration, store: Timestamp) -> Option<Self> {
        let half = millis(took) / 2;
        let ahead_ms = asked.0.saturating_add(half).saturating_sub(store.0);
        (took <= ASKED_MAX).then_some(Self { ahead_ms, uncertain_ms: half.max(UNCERTAIN_LEAST_MS) })
    }

    /// How far the machine's clock is ahead, in milliseconds. Negative: behind.
    #[must_use]
    pub const fn ahead_ms(self) -> i64 {
        self.ahead_ms
    }

    /// Whether a node with this difference may remove what is old.
    #[must_use]
    pub fn is_small(self) -> bool {
        self.ahead_ms.abs() <= millis(CLOCKS_APART_MAX)
    }

    /// Corrects [`Timestamp::now`] for the whole process.
    pub fn correct_clock(self) {
        AHEAD_MS.store(self.correction(AHEAD_MS.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// The correction after `before`, which is kept while it differs by no more than the question's
    /// uncertainty.
    const fn correction(self, before: i64) -> i64 {
        let apart = self.ahead_ms.saturating_sub(before);
        if apart.saturating_abs() <= self.uncertain_ms { before } else { self.ahead_ms }
    }
}

/// Whether this machine's clock is near the store's, by the last question; also before the first question.
#[must_use]
pub fn clocks_agree() -> bool {
    AHEAD_MS.load(Ordering::Relaxed).saturating_abs() <= millis(CLOCKS_APART_MAX)
}

/// How far the machine's clock is made wrong.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn made_wrong() -> i64 {
    0
}

/// How far the machine's clock is made wrong: 60 days ahead, if `KITH_MUTANT` names `clock_right`.
#[cfg(feature = "mutants")]
#[expect(clippy::disallowed_methods, reason = "only in test builds whose clock is wrong")]
pub(crate) fn made_wrong() -> i64 {
    static AHEAD: std::sync::OnceLock<i64> = std::sync::OnceLock::new();
    *AHEAD.get_or_init(|| {
        let removed = std::env::var("KITH_MUTANT").unwrap_or_default();
        if removed.split(',').any(|removed| removed == "clock_right") { 60 * 86_400_000 } else { 0 }
    })
}

/// Corrects a time from the machine.
pub(crate) fn corrected(machine: i64) -> i64 {
    machine.saturating_sub(AHEAD_MS.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(asked: i64, took_ms: u64, store: i64) -> Option<ClockDifference> {
        ClockDifference::measured(Timestamp(asked), Duration::from_millis(took_ms), Timestamp(store))
    }

    #[test]
    fn difference_leaves_out_half_of_the_way() {
        assert_eq!(found(10_000, 100, 9_050).unwrap().ahead_ms(), 1_000);
        assert_eq!(found(10_000, 100, 310_050).unwrap().ahead_ms(), -300_000);
        assert_eq!(found(10_000, 501, 10_000), None, "too slow to say anything");
    }

    #[test]
    fn correction_does_not_follow_noise() {
        let difference = found(10_000, 200, 10_090).unwrap();
        assert_eq!(difference.correction(0), 0);
        assert_eq!(found(310_000, 200, 10_000).unwrap().correction(0), 300_100);
        assert_eq!(found(310_000, 200, 10_000).unwrap().correction(300_050), 300_050);
        assert_eq!(found(10_000, 0, 10_000).unwrap().correction(300_000), 0, "the clock was set right");
    }

    #[test]
    fn half_a_minute_is_small() {
        let small = |ahead: i64| found(ahead, 0, 0).unwrap().is_small();
        assert_eq!([-30_001, -30_000, 30_000, 30_001].map(small), [false, true, true, false]);
        assert!(found(i64::MAX, 0, i64::MIN).is_some_and(|apart| !apart.is_small()));
    }
}
