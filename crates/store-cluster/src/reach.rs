//! Whether a server answers, as the pings of the node have shown.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Pings in a row that fail before calls are refused at once: a single one may only have been slow.
const FAILED: u32 = 2;
/// How long a failed ping counts. A node that no longer pings would refuse calls for ever.
const COUNTS: Duration = Duration::from_secs(5);

/// Shared by the calls of a store. While the server does not answer, a call is refused at once instead of waiting for its
/// own timeout.
#[derive(Debug, Default)]
pub(crate) struct Reach(Mutex<Option<Failing>>);

#[derive(Clone, Copy, Debug)]
struct Failing {
    pings: u32,
    last: Instant,
}

impl Reach {
    /// Takes in the result of a ping.
    pub(crate) fn pinged(&self, answered: bool) {
        let mut failing = self.0.lock();
        let pings = failing.map_or(0, |before| before.pings);
        *failing = (!answered).then(|| Failing { pings: pings.saturating_add(1), last: Instant::now() });
    }

    /// Whether a call would wait in vain.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.lock().is_some_and(|failing| failing.pings >= FAILED && failing.last.elapsed() < COUNTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn two_failed_pings_count_until_one_answers() {
        let reach = Reach::default();
        reach.pinged(false);
        assert!(!reach.is_lost(), "one may be slow");
        reach.pinged(false);
        assert!(reach.is_lost());
        reach.pinged(true);
        assert!(!reach.is_lost());
        reach.pinged(false);
        assert!(!reach.is_lost());
    }

    #[tokio::test(start_paused = true)]
    async fn failed_pings_do_not_count_for_ever() {
        let reach = Reach::default();
        reach.pinged(false);
        reach.pinged(false);
        tokio::time::advance(COUNTS).await;
        assert!(!reach.is_lost());
    }
}
