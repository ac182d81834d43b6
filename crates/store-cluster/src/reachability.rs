//! Whether a server answers, as the node's pings have shown.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Pings in a row that fail before calls are refused at once: a single ping may only have been slow.
const FAILED_MIN: u32 = 2;
/// How long a failed ping counts. A node that no longer pings would refuse calls for ever.
const COUNTS_FOR: Duration = Duration::from_secs(5);

/// A store's calls share it. While the server does not answer, a call is refused at once instead of waiting
/// for its own timeout.
#[derive(Debug, Default)]
pub(crate) struct Reachability(Mutex<Option<FailedPings>>);

#[derive(Clone, Copy, Debug)]
struct FailedPings {
    pings: u32,
    last: Instant,
}

impl Reachability {
    /// Records a ping's result.
    pub(crate) fn record_ping(&self, answered: bool) {
        let mut failed = self.0.lock();
        let pings = failed.map_or(0, |before| before.pings);
        *failed = (!answered).then(|| FailedPings { pings: pings.saturating_add(1), last: Instant::now() });
    }

    /// Whether a call would wait in vain.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.0.lock().is_some_and(|failed| failed.pings >= FAILED_MIN && failed.last.elapsed() < COUNTS_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn two_failed_pings_count_until_one_answers() {
        let reachability = Reachability::default();
        reachability.record_ping(false);
        assert!(!reachability.is_unreachable(), "one may be slow");
        reachability.record_ping(false);
        assert!(reachability.is_unreachable());
        reachability.record_ping(true);
        assert!(!reachability.is_unreachable());
        reachability.record_ping(false);
        assert!(!reachability.is_unreachable());
    }

    #[tokio::test(start_paused = true)]
    async fn failed_pings_do_not_count_for_ever() {
        let reachability = Reachability::default();
        reachability.record_ping(false);
        reachability.record_ping(false);
        tokio::time::advance(COUNTS_FOR).await;
        assert!(!reachability.is_unreachable());
    }
}
