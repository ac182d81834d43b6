//! The configuration of receipts, with its defaults.

use std::time::Duration;

use kith_store::ReceiptVisibility;
use serde::{Deserialize, Serialize};

/// Receipts: who has read a message.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReceiptsConfig {
    /// Which users may see who has read a message, unless the group has its own setting. Services may always.
    pub shown: ReceiptsShown,
    /// How long a node caches what the members of a group have read.
    #[serde(skip)]
    pub memory: Duration,
    /// The same for groups with more than 10000 users who are or were members.
    #[serde(skip)]
    pub memory_large: Duration,
    /// Maximum users whose memberships, and whose marks, a node caches; about 50 bytes each.
    #[serde(skip)]
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

impl From<ReceiptsShown> for ReceiptVisibility {
    fn from(shown: ReceiptsShown) -> Self {
        match shown {
            ReceiptsShown::Off => Self::Off,
            ReceiptsShown::Sender => Self::Sender,
            ReceiptsShown::Members => Self::Members,
        }
    }
}
