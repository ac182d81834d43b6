//! Versions and moments, between the words of the store, of the tiers and of the wire.

use kith_cache::Loaded;
use kith_store::{Invalid, Stored, Timestamp, Version};

use crate::error::Error;

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

/// A moment from 1970 on, as a field of this name holds it.
///
/// # Errors
/// When it is before, or in no form that there is.
pub fn moment(field: &'static str, time: &prost_types::Timestamp) -> Result<Timestamp, Error> {
    let millis = time
        .seconds
        .checked_mul(1000)
        .and_then(|millis| millis.checked_add(i64::from(time.nanos / 1_000_000)));
    let fine = millis.filter(|millis| *millis >= 0 && (0..1_000_000_000).contains(&time.nanos));
    let why = || Error::invalid(field, &Invalid::new("must be a moment from 1970 on"));
    fine.map(Timestamp).ok_or_else(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_from_1970_on_and_in_their_form() {
        let time = |seconds, nanos| prost_types::Timestamp { seconds, nanos };
        assert_eq!(moment("t", &time(5, 999_999_999)).unwrap(), Timestamp(5_999));
        for wrong in [time(-1, 0), time(0, -1), time(0, 1_000_000_000), time(i64::MAX, 0)] {
            assert!(moment("t", &wrong).is_err(), "{wrong:?}");
        }
    }
}
