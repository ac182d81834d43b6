//! How long to wait before the next try.

use std::time::Duration;

use crate::Settings;

/// The wait grows by this factor.
const GROWTH: u32 = 3;
const SOURCE_MAX: Duration = Duration::from_secs(10);

/// Returns the wait after a number of failed tries, at least 1: between three quarters of it and all of it,
/// so that records which failed together are not tried together. `asked`: what the receiver asks for at
/// least.
pub(crate) fn wait(settings: &Settings, failed: u32, asked: Option<Duration>) -> Duration {
    let factor = GROWTH.saturating_pow(failed.saturating_sub(1));
    let grown = settings.first_wait.saturating_mul(factor).min(settings.longest_wait);
    let wait = grown.mul_f64(rand::random_range(0.75..=1.0));
    asked.map_or(wait, |asked| wait.max(asked)).min(settings.longest_wait)
}

/// Like [`wait`], for a source that is away: it is asked again within 10 s.
pub(crate) fn wait_for_source(settings: &Settings, failed: u32) -> Duration {
    wait(settings, failed, None).min(SOURCE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_grows_to_its_limit() {
        let settings = Settings::default();
        let second = Duration::from_secs(1);
        for (failed, longest) in [(1, 1), (2, 3), (3, 9), (6, 243), (7, 300), (99, 300)] {
            let wait = wait(&settings, failed, None);
            let longest = second * longest;
            assert!(wait <= longest && wait >= longest.mul_f64(0.75), "{failed}: {wait:?}");
        }
    }

    #[test]
    fn receiver_may_ask_for_a_longer_wait() {
        let settings = Settings::default();
        assert_eq!(wait(&settings, 1, Some(Duration::from_secs(30))), Duration::from_secs(30));
        assert_eq!(wait(&settings, 1, Some(Duration::MAX)), settings.longest_wait);
    }
}
