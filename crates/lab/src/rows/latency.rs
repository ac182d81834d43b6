//! How long calls took.

use crate::ratio::median;

/// The time of a call: in the middle, and of all but the slowest hundredth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Latency {
    /// In the unit of these times.
    pub(super) fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
        Self { p50: median(times), p99 }
    }
}
