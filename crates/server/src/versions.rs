//! Versions and moments, between the words of the store, of the tiers and of the wire.

use kith_cache::Loaded;
use kith_store::{Stored, Timestamp, Version};

/// A version in the form in which the tiers hold it.
#[must_use]
pub fn cache_version(version: Version) -> kith_cache::Version {
    kith_cache::Version::new(version.get().unsigned_abs())
}

/// What the store holds of a record in the form in which loads bring it; `version` reads that of a record.
pub fn loaded<T>(stored: Stored<T>, version: impl FnOnce(&T) -> Version) -> Loaded<T> {
    match stored {
        Stored::Live(value) => Loaded::Found { version: cache_version(version(&value)), value },
        Stored::Deleted(version) => Loaded::Absent { version: cache_version(version) },
        Stored::Never => Loaded::Absent { version: cache_version(Version::NONE) },
    }
}

/// A moment in the form in which answers carry it.
#[must_use]
pub fn wire_time(moment: Timestamp) -> prost_types::Timestamp {
    let nanos = i32::try_from(moment.0.rem_euclid(1000) * 1_000_000).unwrap_or_default();
    prost_types::Timestamp { seconds: moment.0.div_euclid(1000), nanos }
}
