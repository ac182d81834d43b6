//! The configuration of receipts, with its defaults.

use std::time::Duration;

use kith_store::ReceiptVisibility;
use serde::{Deserialize, Serialize};

use crate::invalid_value::{InvalidValue, all_hold};

/// Copies of marks are not kept longer.
const MEMORY_MAX: Duration = Duration::from_secs(60);

/// Receipts: who has read a message.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReceiptsConfig {
    /// Which users may see who has read a message, unless the group has its own setting. Services may always.
    pub shown: ReceiptsShown,
    /// How long a node caches what the members of a group have read. At most 1m.
    #[serde(with = "humantime_serde")]
    pub memory: Duration,
    /// The same for groups with more than 10000 users who are or were members. At most 1m.
    #[serde(with = "humantime_serde")]
    pub memory_large: Duration,
    /// Maximum users whose memberships, and whose marks, a node caches; about 50 bytes each.
    pub kept: usize,
    /// How long after a mark the receiving senders of a group are notified, and at least between two
    /// notifications. 0s: never.
    #[serde(with = "humantime_serde")]
    pub notify_every: Duration,
}

/// The rights to read receipts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptsShown {
    /// No user sees them.
    Off,
    /// The sender of the message.
    #[default]
    Sender,
    /// The members who are readers of the message, and its sender.
    Members,
}

impl Default for ReceiptsConfig {
    fn default() -> Self {
        Self {
            shown: ReceiptsShown::Sender,
            memory: Duration::from_secs(1),
            memory_large: Duration::from_secs(10),
            kept: 1_000_000,
            notify_every: Duration::from_secs(1),
        }
    }
}

impl ReceiptsConfig {
    /// Whether each value can be taken.
    ///
    /// # Errors
    /// Names the key and its limit.
    pub fn check(&self) -> Result<(), InvalidValue> {
        all_hold(&[
            ("receipts.memory", self.memory <= MEMORY_MAX, "must be at most 1m"),
            ("receipts.memory_large", self.memory_large <= MEMORY_MAX, "must be at most 1m"),
        ])
    }
}

impl From<ReceiptsShown> for ReceiptVisibility {
    fn from(shown: ReceiptsShown) -> Self {
        match shown {
            ReceiptsShown::Off => Self::Off,
            ReceiptsShown::Sender => Self::Sender,
            ReceiptsShown::Members => Self::Members,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_kept_for_a_minute_at_most() {
        let refused = |memory, memory_large| {
            let (memory, memory_large) = (Duration::from_secs(memory), Duration::from_secs(memory_large));
            let config = ReceiptsConfig { memory, memory_large, ..ReceiptsConfig::default() };
            config.check().err().map(|wrong| wrong.key)
        };
        assert!(ReceiptsConfig::default().check().is_ok());
        assert_eq!((refused(0, 60), refused(60, 0)), (None, None));
        assert_eq!(
            (refused(61, 1), refused(1, 61)),
            (Some("receipts.memory"), Some("receipts.memory_large"))
        );
    }
}
