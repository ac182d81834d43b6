//! Versions and timestamps.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use crate::{
    Invalid,
    clock::{corrected, made_wrong},
};

/// A record's version: assigned by the store inside the write, one above its predecessor, never reset, also
/// not by deletion and re-creation. `NONE` (0) means a record that has never existed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Version(i64);

impl Version {
    /// The version of a record that never existed.
    pub const NONE: Self = Self(0);
    /// The version of a record that was just created for the first time.
    pub const FIRST: Self = Self(1);

    /// The version with this number; `None` below 0.
    #[must_use]
    pub const fn new(number: i64) -> Option<Self> {
        if number < 0 { None } else { Some(Self(number)) }
    }

    /// The number, 0 or above.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The next write's version.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl TryFrom<i64> for Version {
    type Error = Invalid;

    fn try_from(number: i64) -> Result<Self, Invalid> {
        Self::new(number).ok_or_else(|| Invalid::new("must be 0 or above"))
    }
}

impl From<Version> for i64 {
    fn from(version: Version) -> Self {
        version.get()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A time in milliseconds since 1970. For display and expiry; never decides an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The present time: by the machine's clock, corrected by the store's (see
    /// [`ClockDifference`](crate::ClockDifference)).
    #[must_use]
    pub fn now() -> Self {
        Self(corrected(Self::of_machine().0))
    }

    /// The present time by the machine's clock alone. Only the clock comparison uses it.
    #[must_use]
    pub fn of_machine() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(millis(since).saturating_add(made_wrong()))
    }

    /// The time this much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(millis(time)))
    }

    /// The time this much earlier.
    #[must_use]
    pub fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(millis(time)))
    }
}

/// Whole milliseconds, as in a [`Timestamp`].
#[must_use]
pub fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_not_below_zero() {
        assert_eq!(Version::new(-1), None);
        assert_eq!(Version::new(0), Some(Version::NONE));
        assert_eq!(Version::NONE.next(), Version::FIRST);
        assert!(Version::FIRST < Version::FIRST.next());
    }

    #[test]
    fn version_below_0_is_not_deserialized() {
        assert_eq!(serde_json::from_str::<Version>("0").unwrap(), Version::NONE);
        assert!(serde_json::from_str::<Version>("-1").is_err());
    }

    #[test]
    fn later_moment_saturates() {
        assert_eq!(Timestamp(5).after(Duration::from_micros(2_999)), Timestamp(7));
        assert_eq!(Timestamp(5).after(Duration::MAX), Timestamp(i64::MAX));
        assert_eq!(Timestamp(i64::MAX).after(Duration::from_secs(1)), Timestamp(i64::MAX));
    }

    #[test]
    fn now_is_after_this_was_written() {
        assert!(Timestamp::now() > Timestamp(1_700_000_000_000));
    }
}
