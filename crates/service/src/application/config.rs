//! The configuration of applications, with its defaults.

use std::time::Duration;

use kith_store::{ApplicationId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::invalid_value::{InvalidValue, all_hold};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Lists are stored by month, and all months are read.
const KEPT_MOST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Limits of applications.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApplicationsConfig {
    /// Maximum pending applications of a user or a group. Above 0.
    pub pending_max: u32,
    /// How long an application can be decided. From 1min to 366days.
    #[serde(with = "humantime_serde")]
    pub pending_for: Duration,
    /// How long it is kept after the decision. From 1day to 366days.
    #[serde(with = "humantime_serde")]
    pub kept: Duration,
}

impl Default for ApplicationsConfig {
    fn default() -> Self {
        Self { pending_max: 1_000, pending_for: 30 * DAY, kept: 90 * DAY }
    }
}

impl ApplicationsConfig {
    /// The id below all stored applications: earlier ones have expired.
    pub(super) fn first(&self, now: Timestamp) -> ApplicationId {
        let known = self.pending_for.saturating_add(self.kept);
        let millis = i64::try_from(known.as_millis()).unwrap_or(i64::MAX);
        ApplicationId::at(Timestamp(now.0.saturating_sub(millis)), 0)
    }

    /// Whether each value can be taken, and all of them together.
    ///
    /// # Errors
    /// Names the key and its limit.
    pub fn check(&self) -> Result<(), InvalidValue> {
        let pending_for = Duration::from_secs(60)..=KEPT_MOST;
        all_hold(&[
            ("applications.pending_max", self.pending_max > 0, "must be above 0"),
            (
                "applications.pending_for",
                pending_for.contains(&self.pending_for),
                "must be from 1min to 366days",
            ),
            ("applications.kept", (DAY..=KEPT_MOST).contains(&self.kept), "must be from 1day to 366days"),
        ])
    }
}
