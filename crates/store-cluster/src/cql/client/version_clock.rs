//! Assigns versions to writes.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

/// A version's low bits, which distinguish writes at the same moment.
const LOW: i64 = (1 << 10) - 1;
/// A version above the versions of all imports until the year 2112, and far below the versions of other
/// writes.
pub(in crate::cql) const IMPORTED_MAX: i64 = 1 << 47;

/// Assigns versions to follows: microseconds since 1970 by this node's clock, but above the previous version.
/// A version is also its rows' timestamp, so that when two writes are concurrent, on any nodes, the write
/// with the higher version wins in every row.
#[derive(Debug)]
pub(in crate::cql) struct VersionClock {
    ahead: i64,
    sequence: AtomicI64,
}

impl VersionClock {
    /// A clock that is this many milliseconds ahead of the machine's clock.
    pub(in crate::cql) fn new(ahead: i64) -> Self {
        Self { ahead, sequence: AtomicI64::new(rand::random_range(0..=LOW)) }
    }

    /// A version above `after` that no other write on this node gets at the same moment.
    pub(in crate::cql) fn version(&self, after: i64) -> i64 {
        let after = if super::fault_injection::lacks("version_above") { 0 } else { after };
        let low = self.sequence.fetch_add(1, Ordering::Relaxed) & LOW;
        self.micros().saturating_sub(LOW).max((after | LOW).saturating_add(1)) & !LOW | low
    }

    /// A version for an import, below those of all other writes. Import versions fall with time, so that when
    /// two imports are concurrent, the later import changes nothing.
    pub(in crate::cql) fn imported_version(&self) -> i64 {
        IMPORTED_MAX - (self.version(0) >> 5)
    }

    /// Microseconds since 1970.
    pub(in crate::cql) fn micros(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros())
            .unwrap_or(i64::MAX)
            .saturating_add(self.ahead.saturating_mul(1000) + super::fault_injection::ahead())
    }

    /// Milliseconds since 1970.
    pub(in crate::cql) fn millis(&self) -> i64 {
        self.micros() / 1000
    }

    /// Minutes since 1970.
    pub(in crate::cql) fn minute(&self) -> i64 {
        self.millis() / 60_000
    }
}

/// Whether this is the version of an imported follow that has not changed since.
pub(in crate::cql) const fn is_imported(version: i64) -> bool {
    version < IMPORTED_MAX
}

/// Approximately when a follow with this version was written, in microseconds since 1970.
pub(in crate::cql) const fn written(version: i64) -> i64 {
    if is_imported(version) { (IMPORTED_MAX - version) << 5 } else { version }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn versions_exceed_any_read_version() {
        let (slow, fast) = (VersionClock::new(-60_000), VersionClock::new(60_000));
        let first = fast.version(0);
        let second = slow.version(first);
        assert!(slow.version(0) < first && first < second && second < fast.version(second));
    }

    #[test]
    fn versions_of_one_moment_differ() {
        let clock = VersionClock::new(0);
        let versions: BTreeSet<i64> = (0..1000).map(|_| clock.version(i64::MAX / 2)).collect();
        assert_eq!(versions.len(), 1000);
    }

    #[test]
    fn many_versions_stay_near_the_clock() {
        let clock = VersionClock::new(0);
        let last = (0..100_000).map(|_| clock.version(0)).max().unwrap();
        assert!(last <= clock.micros() + LOW);
    }

    #[test]
    fn imported_versions_are_recognised() {
        for ahead in [-60_000, 0, 60_000] {
            let clock = VersionClock::new(ahead);
            let (earlier, later) = (clock.imported_version(), clock.imported_version());
            assert!(0 < later && later <= earlier && is_imported(earlier) && !is_imported(clock.version(0)));
            assert!((written(earlier) - clock.micros()).abs() < 1_000_000);
        }
    }
}
