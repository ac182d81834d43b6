use std::fmt;

/// A record's version as its store assigned it; 0 means that the record has no version.
///
/// Only versions that the store assigned after it read the predecessor may be used: only they order two
/// values. A version that comes from a clock counts as no version here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// The version that a record has if its store assigned none, or if it has never been stored.
    pub const UNVERSIONED: Self = Self(0);

    /// Wraps a number; 0 is [`Version::UNVERSIONED`].
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the version as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The version of the next write; stays where it is at the largest number.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Whether the record has a version.
    #[must_use]
    pub const fn is_versioned(self) -> bool {
        self.0 > 0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
