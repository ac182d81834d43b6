//! The values that a restore skips: clients still hold consistency tokens, ids and sequence numbers from the
//! time that is lost.

use std::time::SystemTime;

use crate::Timestamp;

/// More than a store can allocate: it writes to disk for every block of ids and for every record.
const IDS_A_MILLISECOND: i64 = 100;
/// The minimum that is skipped, in case the clock was set back.
const IDS_LEAST: i64 = 1_000_000;
/// Sequence numbers are issued this much faster than ids: their blocks are larger.
const SEQS_OF_AN_ID: i64 = 100;
/// The most sequence numbers that are skipped: a clock may be wrong.
const SEQS_MOST: i64 = 1 << 50;

/// The values that restored data continues above, so that no value from the lost time gets a new meaning.
/// They follow from the time since the backup, so they also hold if the same backup is restored a second
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreSkips {
    /// The epoch must become higher than this. No cluster begins more than a thousand epochs a second.
    pub epoch: i64,
    /// How many ids to skip for each kind.
    pub ids: i64,
    /// How many values to skip in each sequence.
    pub seqs: i64,
}

impl RestoreSkips {
    /// The skips for a backup that was begun at this time.
    #[must_use]
    pub fn since(backup: SystemTime) -> Self {
        let elapsed = SystemTime::now().duration_since(backup).unwrap_or_default();
        let elapsed = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
        let ids = elapsed.saturating_mul(IDS_A_MILLISECOND).saturating_add(IDS_LEAST);
        let seqs = ids.saturating_mul(SEQS_OF_AN_ID).min(SEQS_MOST);
        Self { epoch: Timestamp::now().0, ids, seqs }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn restore_skips_more_for_an_older_backup() {
        let now = SystemTime::now();
        let fresh = RestoreSkips::since(now);
        assert!(fresh.ids >= 1_000_000 && fresh.seqs >= 100_000_000, "{fresh:?}");
        let hour = RestoreSkips::since(now - Duration::from_secs(3_600));
        assert!(hour.ids >= fresh.ids + 350_000_000, "{hour:?}");
        let ahead = RestoreSkips::since(now + Duration::from_secs(3_600));
        assert_eq!(ahead.ids, 1_000_000, "a clock that was set back");
        assert_eq!(RestoreSkips::since(SystemTime::UNIX_EPOCH).seqs, 1 << 50);
    }
}
