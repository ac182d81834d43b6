//! Refused connections and sockets, reported to operators.

use std::time::{Duration, SystemTime};

use metrics::Counter;
use tokio::time::Instant;

use crate::health::{HealthCause, Reporter};

/// Least time between two log lines about it.
const EVERY: Duration = Duration::from_secs(60);
/// How long after the last line `/readyz` still has the remark.
const REMARKED: Duration = Duration::from_secs(120);

/// Counts something that may happen thousands of times a second. Reports the first time at once, then at most
/// once a minute: a line in the log, and a remark in `/readyz` that ends 1 to 2 minutes after the last time.
#[derive(Debug)]
pub(crate) struct ConnectionRefusals {
    counter: Counter,
    /// The reason that `/readyz` shows.
    reason: &'static str,
    health: Reporter,
    /// Count since the last line.
    count: u64,
    line: Option<Instant>,
    since: SystemTime,
}

impl ConnectionRefusals {
    pub(crate) fn new(counter: Counter, reason: &'static str, health: Reporter) -> Self {
        Self { counter, reason, health, count: 0, line: None, since: SystemTime::UNIX_EPOCH }
    }

    /// Counts one event. `message`: what happened, why, and what to do; called only if a line is due.
    pub(crate) fn one_more(&mut self, message: impl FnOnce() -> String) {
        self.counter.increment(1);
        self.count += 1;
        let now = Instant::now();
        let quiet = self.line.map(|line| now - line);
        if quiet.is_some_and(|quiet| quiet < EVERY) {
            return;
        }
        if quiet.is_none_or(|quiet| quiet >= REMARKED) {
            self.since = SystemTime::now();
        }
        let message = message();
        tracing::warn!(connections = std::mem::take(&mut self.count), "{message}");
        self.line = Some(now);
        self.health
            .remark_until(HealthCause { reason: self.reason, message, since: self.since }, now + REMARKED);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reports_once_a_minute_and_remark_ends() {
        let health = Reporter::new();
        let mut refusals = ConnectionRefusals::new(Counter::noop(), "connections_refused", health.clone());
        let mut lines = 0;
        for second in 0..150 {
            refusals.one_more(|| {
                lines += 1;
                format!("at {second} s")
            });
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(lines, 3);
        let remarks = health.remarks();
        assert_eq!((remarks.len(), remarks[0].reason), (1, "connections_refused"));
        assert_eq!(remarks[0].message, "at 120 s");
        advance(REMARKED).await;
        assert_eq!(health.remarks(), []);
    }
}
