//! Estimates the time on the Redis server.

use kith_cache::Moment;
use parking_lot::Mutex;

use crate::ServerTime;

/// An older sample is not used: two machines' clocks do not run equally fast.
const SAMPLE_KEPT_MS: u64 = 60_000;

/// The known times on the server's clock.
#[derive(Debug, Default)]
pub(super) struct ServerTimes(Mutex<Option<Sample>>);

/// A server time, from an answer that was received at this moment or earlier.
#[derive(Clone, Copy, Debug)]
struct Sample {
    time: ServerTime,
    received: Moment,
}

impl ServerTimes {
    /// Records the time in an answer that was just received.
    pub(super) fn learn(&self, time: ServerTime, received: Moment) {
        *self.0.lock() = Some(Sample { time, received });
    }

    /// A server time in this epoch that was not later than this moment on the node; 0: none is known.
    ///
    /// An answer was on its way for an unknown time, so the server was at its time or later when the answer
    /// was received.
    pub(super) fn not_after(&self, moment: Moment, epoch: u64, now: Moment) -> i64 {
        let sample = *self.0.lock();
        let known = sample.filter(|sample| {
            let age = now.get().saturating_sub(sample.received.get());
            sample.time.epoch == epoch && age <= SAMPLE_KEPT_MS
        });
        known.map_or(0, |sample| {
            let passed = signed(moment).saturating_sub(signed(sample.received));
            // Both moments are rounded down.
            sample.time.ms.saturating_add(passed).saturating_sub(1).max(0)
        })
    }
}

fn signed(moment: Moment) -> i64 {
    i64::try_from(moment.get()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::new(ms)
    }

    fn learned() -> ServerTimes {
        let times = ServerTimes::default();
        times.learn(ServerTime { epoch: 5, ms: 1_000_000 }, at(500));
        times
    }

    #[test]
    fn node_moment_becomes_earlier_server_time() {
        let times = learned();
        assert_eq!(times.not_after(at(500), 5, at(600)), 999_999);
        assert_eq!(times.not_after(at(700), 5, at(700)), 1_000_199);
        assert_eq!(times.not_after(at(100), 5, at(700)), 999_599, "it was before the sample");
    }

    #[test]
    fn nothing_is_known_without_a_sample() {
        assert_eq!(ServerTimes::default().not_after(at(500), 5, at(500)), 0);
        assert_eq!(learned().not_after(at(500), 6, at(500)), 0, "the clock of another server");
        assert_eq!(learned().not_after(at(500), 5, at(60_501)), 0, "it is old");
    }
}
