//! The pauses between discards of all copies.

use std::time::Duration;

use tokio::time::Instant;

/// When copies were last discarded, and how long to wait before they are discarded again. A drop of eight
/// collections is eight losses: without pauses each would empty every memory.
#[derive(Debug)]
pub(super) struct Discards {
    last: Option<Instant>,
    /// The pause after the last discard.
    pause: Duration,
    first: Duration,
    longest: Duration,
}

impl Discards {
    /// Creates it with the first and the longest pause.
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self { last: None, pause: first, first, longest }
    }

    /// The remaining pause after the last discard.
    pub(super) fn pause(&self) -> Duration {
        self.last.map_or(Duration::ZERO, |last| self.pause.saturating_sub(last.elapsed()))
    }

    /// Counts a discard. The pause after it is twice the previous pause, unless none was needed for a while.
    pub(super) fn count(&mut self) {
        let is_first = self.last.is_none_or(|last| last.elapsed() >= self.longest * 2);
        self.pause = if is_first { self.first } else { (self.pause * 2).min(self.longest) };
        self.last = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn discard_pauses_grow_to_the_longest() {
        let mut discards = Discards::new(Duration::from_secs(1), Duration::from_secs(60));
        assert_eq!(discards.pause(), Duration::ZERO, "the first loss is handled at once");
        let mut pauses = Vec::new();
        for _ in 0..8 {
            discards.count();
            pauses.push(discards.pause().as_secs());
            advance(discards.pause()).await;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        advance(Duration::from_secs(120)).await;
        discards.count();
        assert_eq!(discards.pause(), Duration::from_secs(1), "after a while without a loss");
    }
}
