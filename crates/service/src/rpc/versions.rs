//! Converts versions and times between the store, the tiers and the wire.

use std::{sync::Arc, time::Duration};

use kith_cache::{Change, Invalidation, LoadError, Loaded};
use kith_proto::Fields;
use kith_store::{
    Audience, Block, Conversation, Dialog, Follow, Group, LogDocument, Member, Notice, NoticeReader,
    ReactionSummary, Roster, StoreError, Stored, Timestamp, User, UserAccess, Version,
};

use crate::error::Error;

/// 0001-01-01T00:00:00Z, the first time that a timestamp's JSON form can express.
const MOMENT_MIN: i64 = -62_135_596_800_000;
/// 9999-12-31T23:59:59.999Z, the last such time.
const MOMENT_MAX: i64 = 253_402_300_799_999;
/// The longest duration that the JSON form can express.
const DURATION_MAX: Duration = Duration::from_secs(315_576_000_000);

/// How far the time at which something happened elsewhere may be ahead of this node's clock.
const AHEAD_MAX: Duration = Duration::from_secs(60);

/// Converts a version to the tiers' form.
#[must_use]
pub fn cache_version(version: Version) -> kith_cache::Version {
    kith_cache::Version::new(version.get().unsigned_abs())
}

/// A record with a version, for the tiers.
pub trait Versioned {
    /// Its version in the store.
    fn version(&self) -> Version;
}

macro_rules! versioned {
    ($($record:ty),*) => {
        $(impl Versioned for $record {
            fn version(&self) -> Version {
                self.version
            }
        })*
    };
}

versioned!(
    Audience,
    Block,
    Conversation,
    Dialog,
    Follow,
    Group,
    LogDocument,
    Member,
    Notice,
    NoticeReader,
    ReactionSummary,
    Roster,
    User,
    UserAccess
);

/// A record's state in the store, as a load.
pub fn loaded<T: Versioned>(stored: Stored<T>) -> Loaded<T> {
    match stored {
        Stored::Live(value) => Loaded::Found { version: cache_version(value.version()), value },
        Stored::Deleted(version) => Loaded::Absent { version: cache_version(version) },
        Stored::Never => Loaded::Absent { version: cache_version(Version::NONE) },
    }
}

/// Records that the store returned with their keys, as a load.
///
/// # Errors
/// The store's error.
pub fn loaded_all<K, T: Versioned>(
    found: Result<Vec<(K, Stored<T>)>, StoreError>,
) -> Result<Vec<(K, Loaded<T>)>, LoadError> {
    Ok(found.map_err(LoadError::new)?.into_iter().map(|(key, stored)| (key, loaded(stored))).collect())
}

/// Records that exist, as a load.
pub(crate) fn loaded_live<K, T: Versioned>(
    found: Result<Vec<T>, StoreError>,
    key: impl Fn(&T) -> K,
) -> Result<Vec<(K, Loaded<T>)>, LoadError> {
    let live = |record| (key(&record), loaded(Stored::Live(Arc::new(record))));
    Ok(found.map_err(LoadError::new)?.into_iter().map(live).collect())
}

/// The change in the tiers after a write that left this record.
pub(crate) fn put<T: Versioned>(record: &Arc<T>) -> Change<T> {
    Change::Put { value: Arc::clone(record), version: cache_version(record.version()) }
}

/// The change in the tiers after a write that ended a record with this version.
pub(crate) fn deleted<T>(version: &Arc<Version>) -> Change<T> {
    Change::Deleted { version: cache_version(**version) }
}

/// The invalidation for a key's cached copy, whatever its version.
pub(crate) const fn invalidation(namespace: &'static str, key: String) -> Invalidation {
    Invalidation { namespace, key, version: None, copy: None }
}

/// A time as answers show it. A time that JSON could not express is shown as the first or last that it can.
#[must_use]
pub fn wire_time(moment: Timestamp) -> prost_types::Timestamp {
    let millis = moment.0.clamp(MOMENT_MIN, MOMENT_MAX);
    let nanos = i32::try_from(millis.rem_euclid(1000) * 1_000_000).unwrap_or_default();
    prost_types::Timestamp { seconds: millis.div_euclid(1000), nanos }
}

/// Writes a time's fields as answers show them.
pub(crate) fn write_time(fields: &mut Fields<'_>, moment: Timestamp) {
    let time = wire_time(moment);
    fields.number(1, time.seconds);
    fields.number(2, time.nanos.into());
}

/// A time span as answers show it. A span longer than JSON can express is shown as the longest that it can.
#[must_use]
pub fn wire_duration(time: Duration) -> prost_types::Duration {
    let time = time.min(DURATION_MAX);
    let seconds = i64::try_from(time.as_secs()).unwrap_or_default();
    prost_types::Duration { seconds, nanos: i32::try_from(time.subsec_nanos()).unwrap_or_default() }
}

/// The time in a field of this name, from 1970 to the last that JSON can express. Every timestamp in every
/// request is read by this function, so that accepted times can be shown to all callers.
///
/// # Errors
/// If it is outside this range, or not a valid timestamp.
pub fn moment(field: &'static str, time: &prost_types::Timestamp) -> Result<Timestamp, Error> {
    let millis = time
        .seconds
        .checked_mul(1000)
        .and_then(|millis| millis.checked_add(i64::from(time.nanos / 1_000_000)));
    let is_valid = (0..1_000_000_000).contains(&time.nanos);
    let millis = millis.filter(|millis| is_valid && (0..=MOMENT_MAX).contains(millis));
    let why = "must be a moment from 1970-01-01T00:00:00Z to 9999-12-31T23:59:59.999Z";
    millis.map(Timestamp).ok_or_else(|| Error::invalid(field, why))
}

/// The time in a field with this name at which something happened: at most a minute ahead of this node, whose
/// clock may be behind.
///
/// # Errors
/// The errors of [`moment`], or if it is further ahead.
pub(crate) fn past_moment(field: &'static str, time: &prost_types::Timestamp) -> Result<Timestamp, Error> {
    let happened = moment(field, time)?;
    if happened > Timestamp::now().after(AHEAD_MAX) {
        return Err(Error::invalid(field, "must not be more than a minute ahead of the present time"));
    }
    Ok(happened)
}

/// A field's time span; `None`: it is negative, longer than JSON can express, or not a valid duration. Every
/// duration in every request is read by this function: the conversion that comes with the type panics at some
/// values.
#[must_use]
pub fn duration(time: &prost_types::Duration) -> Option<Duration> {
    let nanos = u32::try_from(time.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    let time = Duration::new(u64::try_from(time.seconds).ok()?, nanos);
    (time <= DURATION_MAX).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn time(seconds: i64, nanos: i32) -> prost_types::Timestamp {
        prost_types::Timestamp { seconds, nanos }
    }

    #[test]
    fn moments_are_taken_up_to_the_last_of_json() {
        assert_eq!(moment("t", &time(5, 999_999_999)).unwrap(), Timestamp(5_999));
        let last = time(253_402_300_799, 999_999_999);
        assert_eq!(moment("t", &last).unwrap(), Timestamp(MOMENT_MAX));
        for wrong in [
            time(-1, 0),
            time(0, -1),
            time(0, 1_000_000_000),
            time(253_402_300_800, 0),
            time(i64::MAX, 0),
            time(i64::MIN, 0),
        ] {
            let error = moment("t", &wrong).unwrap_err();
            assert_eq!(error.reason(), crate::error::Reason::InvalidField, "{wrong:?}");
        }
    }

    #[test]
    fn past_ends_a_minute_ahead() {
        let ahead = |seconds: i64| time(Timestamp::now().0 / 1_000 + seconds, 0);
        assert!(past_moment("t", &ahead(50)).is_ok() && past_moment("t", &time(0, 0)).is_ok());
        let error = past_moment("t", &ahead(90)).unwrap_err();
        assert_eq!(error.reason(), crate::error::Reason::InvalidField);
    }

    #[test]
    fn durations_are_taken_up_to_the_last_of_json() {
        let of = |seconds, nanos| duration(&prost_types::Duration { seconds, nanos });
        assert_eq!(of(1, 500_000_000), Some(Duration::from_millis(1_500)));
        assert_eq!(of(315_576_000_000, 0), Some(DURATION_MAX));
        let wrong =
            [(315_576_000_000, 1), (i64::MAX, 0), (i64::MIN, i32::MIN), (-1, 0), (1, -1), (1, 1_000_000_000)];
        for (seconds, nanos) in wrong {
            assert_eq!(of(seconds, nanos), None, "{seconds} {nanos}");
        }
    }

    #[test]
    fn answers_hold_what_json_can_express() {
        assert_eq!(wire_time(Timestamp(5_999)), time(5, 999_000_000));
        assert_eq!(wire_time(Timestamp(i64::MAX)), time(253_402_300_799, 999_000_000));
        assert_eq!(wire_time(Timestamp(i64::MIN)), time(-62_135_596_800, 0));
        assert_eq!(
            wire_duration(Duration::MAX),
            prost_types::Duration { seconds: 315_576_000_000, nanos: 0 }
        );
        let short = wire_duration(Duration::from_micros(1_500_001));
        assert_eq!(short, prost_types::Duration { seconds: 1, nanos: 500_001_000 });
    }
}
