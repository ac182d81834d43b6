//! How long calls took.

use anyhow::Result;
use tokio::time::Instant;

use crate::ratio::{Pair, Side, interleave, median, nanos};

/// The time that a call takes: the median, and the time that 99 of 100 calls do not exceed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Latency {
    /// Calculates both in the unit of these times.
    pub(super) fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
        Self { p50: median(times), p99 }
    }
}

/// Compares the median time for `calls` calls on each side, one after the other, in microseconds.
pub(super) async fn compare_medians(
    rounds: usize,
    calls: usize,
    mut call: impl AsyncFnMut(Side) -> Result<()>,
) -> Result<Vec<Pair<f64>>> {
    interleave(rounds, async |side| {
        let mut times = Vec::with_capacity(calls);
        for _ in 0..calls {
            let begun = Instant::now();
            call(side).await?;
            times.push(nanos(begun.elapsed()) / 1e3);
        }
        Ok(median(times))
    })
    .await
}
