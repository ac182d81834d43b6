//! Counts how long calls took, so that any two moments can be compared.
//!
//! The buckets are those of an HDR histogram, sixteen in each doubling: a call costs one relaxed addition. A
//! reader subtracts its previous reading, and nothing is reset, so that each reader has its own pace.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Buckets in each doubling, as a power of two.
const FINE_BITS: u32 = 4;
const FINE: usize = 1 << FINE_BITS;
/// Times are distinguished up to this many doublings of a microsecond: 67 s. Longer times are in the last
/// bucket.
const DOUBLINGS: u32 = 26;
const BUCKETS: usize = (DOUBLINGS as usize - FINE_BITS as usize + 1) * FINE;

/// How long one method's calls took since the start.
#[derive(Debug)]
pub(super) struct LatencyHistogram([AtomicU64; BUCKETS]);

/// The counts in a [`LatencyHistogram`] at a moment, or between two moments.
#[derive(Clone, Debug)]
pub(crate) struct LatencySnapshot(Box<[u64]>);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl LatencyHistogram {
    pub(super) fn record(&self, time: Duration) {
        self.0[bucket(time)].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> LatencySnapshot {
        LatencySnapshot(self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect())
    }
}

impl Default for LatencySnapshot {
    fn default() -> Self {
        Self(vec![0; BUCKETS].into())
    }
}

impl LatencySnapshot {
    /// How many calls.
    pub(crate) fn calls(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The time that this part of the calls, 0 to 1, took at most. It is at most a sixteenth too long. `None`
    /// without calls.
    pub(crate) fn quantile(&self, part: f64) -> Option<Duration> {
        let calls = self.calls();
        let rank = rank(part, calls);
        let mut seen = 0;
        let at = self.0.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        (calls > 0).then(|| upper(at))
    }

    /// Returns the calls that came since an earlier moment.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self(self.0.iter().zip(&before.0).map(|(now, before)| now.saturating_sub(*before)).collect())
    }

    /// Adds another method's counts.
    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }
}

/// The call's position by its time, starting at 1.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts far below 2^52, and a part of one"
)]
fn rank(part: f64, calls: u64) -> u64 {
    ((calls as f64 * part).ceil() as u64).max(1)
}

/// The bucket for a time.
fn bucket(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let doubling = micros.max(1).ilog2();
    if doubling < FINE_BITS {
        return usize::try_from(micros).unwrap_or(0);
    }
    let fine = usize::try_from(micros >> (doubling - FINE_BITS)).unwrap_or(usize::MAX) % FINE;
    let coarse = usize::try_from(doubling - FINE_BITS + 1).unwrap_or(usize::MAX);
    if doubling >= DOUBLINGS { BUCKETS - 1 } else { coarse * FINE + fine }
}

/// The longest time in a bucket.
fn upper(bucket: usize) -> Duration {
    let (coarse, fine) = (bucket / FINE, bucket % FINE);
    let micros = match u32::try_from(coarse).unwrap_or(DOUBLINGS) {
        0 => fine,
        coarse => ((FINE + fine + 1) << (coarse - 1)) - 1,
    };
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(micros: impl IntoIterator<Item = u64>) -> LatencySnapshot {
        let times = LatencyHistogram::default();
        micros.into_iter().for_each(|micros| times.record(Duration::from_micros(micros)));
        times.read()
    }

    #[test]
    fn buckets_are_at_most_a_sixteenth_too_long() {
        for micros in (0..5_000).chain((0..26).map(|doubling| (1 << doubling) + 7)).chain([67_000_000]) {
            let time = Duration::from_micros(micros);
            let counted = upper(bucket(time));
            assert!(counted >= time && counted <= time + time / 16, "{time:?} is counted as {counted:?}");
        }
        assert_eq!(bucket(Duration::from_secs(3600)), BUCKETS - 1);
    }

    #[test]
    fn buckets_follow_each_other_without_gap() {
        for at in 1..BUCKETS - 1 {
            let (before, here) = (upper(at - 1), upper(at));
            assert!(here > before, "{at}");
            assert_eq!((bucket(here), bucket(before + Duration::from_micros(1))), (at, at));
        }
    }

    #[test]
    fn quantiles_are_those_of_the_calls() {
        let all = snapshot(1..=1_000);
        let near = |part: f64, micros: u64| {
            let counted = all.quantile(part).unwrap();
            let time = Duration::from_micros(micros);
            assert!(counted >= time && counted <= time + time / 16, "{part}: {counted:?}");
        };
        near(0.5, 500);
        near(0.99, 990);
        near(1.0, 1_000);
        assert_eq!(snapshot([]).quantile(0.99), None);
        assert_eq!(snapshot([3]).quantile(0.5), Some(Duration::from_micros(3)));
    }

    #[test]
    fn snapshots_differ_by_the_calls_between_them() {
        let times = LatencyHistogram::default();
        times.record(Duration::from_secs(1));
        let before = times.read();
        times.record(Duration::from_micros(10));
        let mut since = times.read().since(&before);
        assert_eq!((since.calls(), since.quantile(0.99)), (1, Some(Duration::from_micros(10))));
        since.add(&before);
        assert_eq!((since.calls(), times.read().calls()), (2, 2));
    }
}
