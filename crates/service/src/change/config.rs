//! The configuration of kept changes, with its defaults.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    invalid_value::{InvalidValue, all_hold},
    size,
};

/// Lowest `bytes_max`: some minutes of a busy node.
const BYTES_LEAST: u64 = 1 << 20;
const KEPT_LEAST: Duration = Duration::from_secs(60);
const KEPT_MAX: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// How changes are kept for other systems.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChangesConfig {
    /// How long changes are kept for ReadChanges, from 1m to 90d; suggested: 3d. 0s: not at all.
    #[serde(with = "humantime_serde")]
    pub kept: Duration,
    /// Maximum bytes of kept changes: the oldest are removed first. Above 0, not below 1MiB.
    #[serde(with = "size")]
    pub bytes_max: u64,
    /// Whether changes of dialogs are kept, which are the most. Another value ends all cursors.
    pub dialogs: bool,
}

impl Default for ChangesConfig {
    fn default() -> Self {
        Self { kept: Duration::ZERO, bytes_max: 1 << 30, dialogs: false }
    }
}

impl ChangesConfig {
    /// Whether each value can be taken.
    ///
    /// # Errors
    /// Names the key and its limit.
    pub fn check(&self) -> Result<(), InvalidValue> {
        let kept = self.kept.is_zero() || (KEPT_LEAST..=KEPT_MAX).contains(&self.kept);
        all_hold(&[
            ("changes.kept", kept, "must be 0s, or from 1m to 90d"),
            ("changes.bytes_max", self.bytes_max >= BYTES_LEAST, "must be at least 1MiB"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_kept_changes_have_bounds() {
        let refused = |seconds, bytes_max| {
            let config = ChangesConfig { kept: Duration::from_secs(seconds), bytes_max, dialogs: false };
            config.check().err().map(|wrong| wrong.key)
        };
        let most = 90 * 86_400;
        for seconds in [0, 60, 3 * 86_400, most] {
            assert_eq!(refused(seconds, 1 << 20), None);
        }
        assert_eq!(refused(59, 1 << 20), Some("changes.kept"));
        assert_eq!(refused(most + 1, 1 << 20), Some("changes.kept"));
        assert_eq!(refused(60, (1 << 20) - 1), Some("changes.bytes_max"));
    }
}
