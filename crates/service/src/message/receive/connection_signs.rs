//! Signs of life from the peer on an HTTP/2 connection, over which many streams may run.
//!
//! hyper pings a peer from which no data frame has come for a while, and ends the connection if there is no
//! answer. It shows neither, but both are bytes that the connection reads. Behind a proxy they come from the
//! proxy.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::time::{Duration, Instant};

/// When bytes from a peer came, and whether its connection broke.
#[derive(Debug)]
pub struct ConnectionSigns {
    began: Instant,
    /// Milliseconds from the beginning until the last bytes.
    heard: AtomicU64,
    is_broken: AtomicBool,
    pinged_after: Duration,
    answers_within: Duration,
}

impl ConnectionSigns {
    /// The signs on a new connection, whose peer is pinged when it has been silent for `pinged_after`, and
    /// may take `answers_within` to answer.
    #[must_use]
    pub fn new(pinged_after: Duration, answers_within: Duration) -> Self {
        let (heard, is_broken) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { began: Instant::now(), heard, is_broken, pinged_after, answers_within }
    }

    /// Records that bytes came.
    pub fn heard(&self) {
        let heard = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.store(heard, Ordering::Relaxed);
    }

    /// A read or a write failed. That the peer has closed the connection is no failure.
    pub fn broken(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }

    /// Whether bytes came so long after a moment that what was sent before it has arrived: if it had not, the
    /// peer would have missed a ping.
    pub(super) fn confirms(&self, moment: Instant) -> bool {
        self.heard_at() >= moment + self.pinged_after + self.answers_within
    }

    /// Whether a connection that ends now has lost its peer: it broke, or an answer is overdue.
    pub(super) fn is_lost(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
            || self.heard_at().elapsed() >= self.pinged_after + self.answers_within / 2
    }

    fn heard_at(&self) -> Instant {
        self.began + Duration::from_millis(self.heard.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connection_is_lost_when_an_answer_is_overdue() {
        let signs = ConnectionSigns::new(Duration::from_secs(30), Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(34)).await;
        assert!(!signs.is_lost(), "it may be answering");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(signs.is_lost());
        signs.heard();
        assert!(!signs.is_lost());
        signs.broken();
        assert!(signs.is_lost());
    }
}
