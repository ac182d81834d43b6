//! The configuration of notices, with its defaults.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::invalid_value::{InvalidValue, all_hold};

const READERS_MAX: u32 = 16_000_000;
const BODY_BYTES_MAX: usize = 64 << 10;

/// Limits of notices.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct NoticesConfig {
    /// Maximum live notices of an audience.
    #[serde(skip)]
    pub live_max: usize,
    /// Maximum audiences.
    #[serde(skip)]
    pub audiences_max: usize,
    /// Maximum readers of an audience.
    #[serde(skip)]
    pub readers_max: u32,
    /// Maximum bytes of a body.
    #[serde(skip)]
    pub body_bytes: usize,
    /// How long notices are kept after they expired; not below 1h.
    #[serde(with = "humantime_serde")]
    pub kept: Duration,
    /// How long a bitmap of readers is kept in Redis. From 1m to 1d.
    #[serde(with = "humantime_serde")]
    pub bitmaps_kept: Duration,
    /// How long CountReaders waits for readers that have to be counted.
    #[serde(skip)]
    pub count_wait: Duration,
}

impl Default for NoticesConfig {
    fn default() -> Self {
        Self {
            live_max: 1_000,
            audiences_max: 1_000,
            readers_max: READERS_MAX,
            body_bytes: BODY_BYTES_MAX,
            kept: Duration::from_secs(180 * 24 * 60 * 60),
            bitmaps_kept: Duration::from_secs(60 * 60),
            count_wait: Duration::from_secs(2),
        }
    }
}

impl NoticesConfig {
    /// Checks that each value is within its limits.
    ///
    /// # Errors
    /// Names the first invalid key and its limit.
    pub fn check(&self) -> Result<(), InvalidValue> {
        let bitmaps_kept = Duration::from_secs(60)..=Duration::from_secs(86_400);
        all_hold(&[
            ("notices.kept", self.kept >= Duration::from_secs(3_600), "must be at least 1h"),
            ("notices.bitmaps_kept", bitmaps_kept.contains(&self.bitmaps_kept), "must be from 1m to 1d"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_beyond_its_limit_is_refused() {
        let refused = |change: fn(&mut NoticesConfig)| {
            let mut config = NoticesConfig::default();
            change(&mut config);
            config.check().err().map(|wrong| wrong.key)
        };
        assert_eq!(refused(|_| {}), None);
        assert_eq!(refused(|config| config.kept = Duration::from_secs(3_599)), Some("notices.kept"));
        assert_eq!(
            refused(|config| config.bitmaps_kept = Duration::from_secs(59)),
            Some("notices.bitmaps_kept")
        );
    }
}
