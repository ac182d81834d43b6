//! The configuration of messages, with its defaults.

use std::{ops::RangeInclusive, time::Duration};

use kith_delivery::{InboxLimits, WindowLimits};
use kith_store::{BODY_BYTES_MAX, SUCCESSOR_AGE};
use serde::{Deserialize, Serialize};

use crate::{
    invalid_value::{InvalidValue, above_zero, all_hold, refuse, within},
    size,
};

/// Limits of messages.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MessagesConfig {
    /// Maximum bytes of a body. Above 0, at most 64KiB.
    #[serde(with = "size")]
    pub body_bytes_max: usize,
    /// From which users direct messages are accepted.
    pub direct_from: DirectFrom,
    /// Maximum messages that wait on a node to be stored.
    #[serde(skip)]
    pub queue: usize,
    /// Maximum messages that wait on a node for one conversation.
    #[serde(skip)]
    pub queue_of_one: usize,
    /// Maximum listed conversations of a user.
    #[serde(skip)]
    pub conversations_max: usize,
    /// Whether joins, leaves, removals, new owners and names of groups are appended as events.
    pub events: bool,
    /// How long messages are kept at least; 0s: for ever. 0s, or not below 1h.
    #[serde(with = "humantime_serde")]
    pub kept: Duration,
    /// How many documents of 100 messages an erasure reads or changes in a second. Above 0.
    pub erase_rate: u32,
    /// Whether the messages of a deleted user are erased; the id stays reserved until the end. Over a
    /// cluster, false or with `store.cql`.
    pub erase_on_delete: bool,
    /// How long users may recall a message that they sent. 0: they may not.
    #[serde(with = "humantime_serde")]
    pub recall_within: Duration,
    /// How long users may edit a message that they sent. 0: they may not.
    #[serde(with = "humantime_serde")]
    pub edit_within: Duration,
    /// The last messages of a conversation that are kept in Redis.
    #[serde(skip)]
    pub window: usize,
    /// Maximum bytes of them.
    #[serde(skip)]
    pub window_bytes: usize,
    /// How long they are kept after the last read.
    #[serde(skip)]
    pub window_ttl: Duration,
    /// How long they are used without a read of the store.
    #[serde(skip)]
    pub window_checked: Duration,
    /// Maximum entries of an inbox, and how far a cursor reaches back.
    #[serde(skip)]
    pub inbox_entries: usize,
    /// How long an inbox is kept in Redis after its user last received.
    #[serde(skip)]
    pub inbox_kept: Duration,
    /// Maximum bytes of all inboxes of a node without Redis.
    #[serde(skip)]
    pub memory_inboxes: usize,
    /// Maximum members of a group whose messages go to inboxes. Above 0, at most 500.
    pub fan_out_members_max: u32,
    /// Maximum open streams of Receive on a node. Above 0.
    pub receivers: usize,
    /// Maximum open streams of Receive of one user on a node. Above 0.
    pub receivers_of_user: usize,
    /// Maximum messages of a conversation that Receive sends at once; earlier messages are `missed`.
    #[serde(skip)]
    pub backlog_max: usize,
    /// Whether signals are sent: typing, reads.
    pub signals: bool,
    /// Whether recipients without a receiver are entered for WatchOffline.
    pub offline: bool,
    /// How long these entries are kept at least, and how far a cursor reaches back. From 1h to 30d.
    #[serde(with = "humantime_serde")]
    pub offline_kept: Duration,
}

/// Each page of a list reads the end of all of them.
const CONVERSATIONS_MAX: usize = 2_000;

const OFFLINE_KEPT: RangeInclusive<Duration> = SUCCESSOR_AGE..=Duration::from_secs(30 * 86_400);
/// As many users as one fan-out has.
const FAN_OUT_MEMBERS_MAX: u32 = 500;
/// A page of messages.
const BACKLOG_MAX: usize = 1_000;

/// From which users direct messages are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DirectFrom {
    /// From all users whom they have not blocked.
    #[default]
    Everybody,
    /// From their friends.
    Friends,
}

impl Default for MessagesConfig {
    fn default() -> Self {
        let (windows, inboxes) = (WindowLimits::default(), InboxLimits::default());
        Self {
            body_bytes_max: BODY_BYTES_MAX,
            direct_from: DirectFrom::Everybody,
            queue: 10_000,
            queue_of_one: 1_000,
            conversations_max: CONVERSATIONS_MAX,
            events: true,
            kept: Duration::ZERO,
            erase_rate: 50,
            erase_on_delete: false,
            recall_within: Duration::from_secs(2 * 60),
            edit_within: Duration::from_secs(24 * 60 * 60),
            window: windows.messages,
            window_bytes: windows.bytes,
            window_ttl: windows.kept,
            window_checked: windows.checked,
            inbox_entries: inboxes.entries,
            inbox_kept: inboxes.kept,
            memory_inboxes: inboxes.memory_bytes,
            fan_out_members_max: FAN_OUT_MEMBERS_MAX,
            receivers: 20_000,
            receivers_of_user: 8,
            backlog_max: BACKLOG_MAX,
            signals: true,
            offline: false,
            offline_kept: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl MessagesConfig {
    /// Whether each value can be taken, and all of them together.
    ///
    /// # Errors
    /// Names the key and its limit.
    pub fn check(&self) -> Result<(), InvalidValue> {
        within("messages.body_bytes_max", self.body_bytes_max, &(1..=BODY_BYTES_MAX))?;
        if !self.kept.is_zero() && self.kept < SUCCESSOR_AGE {
            let text = format!("is {:?}; it must be 0s, or not below 1h", self.kept);
            return refuse("messages.kept", &text);
        }
        above_zero(&[
            ("messages.erase_rate", self.erase_rate == 0),
            ("messages.receivers", self.receivers == 0),
            ("messages.receivers_of_user", self.receivers_of_user == 0),
        ])?;
        within("messages.fan_out_members_max", self.fan_out_members_max, &(1..=FAN_OUT_MEMBERS_MAX))?;
        all_hold(&[(
            "messages.offline_kept",
            OFFLINE_KEPT.contains(&self.offline_kept),
            "must be from 1h to 30d",
        )])
    }

    /// Returns the limits for inboxes.
    #[must_use]
    pub fn inboxes(&self) -> InboxLimits {
        InboxLimits {
            entries: self.inbox_entries,
            kept: self.inbox_kept,
            memory_bytes: self.memory_inboxes,
            ..InboxLimits::default()
        }
    }

    /// Returns the limits for conversations' last messages in Redis.
    #[must_use]
    pub fn windows(&self) -> WindowLimits {
        WindowLimits {
            messages: self.window,
            bytes: self.window_bytes,
            kept: self.window_ttl,
            checked: self.window_checked,
            ..WindowLimits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut MessagesConfig);

    fn key_at_fault(change: Change) -> Option<&'static str> {
        let mut config = MessagesConfig::default();
        change(&mut config);
        config.check().err().map(|wrong| wrong.key)
    }

    const fn days(count: u64) -> Duration {
        Duration::from_secs(count * 86_400)
    }

    #[test]
    fn values_within_bounds_are_taken() {
        let changes: [Change; 3] =
            [|_| {}, |config| config.body_bytes_max = 1, |config| config.kept = SUCCESSOR_AGE];
        for (number, change) in changes.into_iter().enumerate() {
            assert_eq!(key_at_fault(change), None, "change {number}");
        }
    }

    #[test]
    fn values_out_of_bounds_are_refused() {
        let changes: [(&str, Change); 11] = [
            ("messages.body_bytes_max", |config| config.body_bytes_max = 0),
            ("messages.body_bytes_max", |config| config.body_bytes_max = BODY_BYTES_MAX + 1),
            ("messages.kept", |config| config.kept = Duration::from_secs(3_599)),
            ("messages.erase_rate", |config| config.erase_rate = 0),
            ("messages.offline_kept", |config| config.offline_kept = Duration::ZERO),
            ("messages.offline_kept", |config| config.offline_kept = Duration::from_secs(3_599)),
            ("messages.offline_kept", |config| config.offline_kept = days(31)),
            ("messages.fan_out_members_max", |config| config.fan_out_members_max = 0),
            ("messages.fan_out_members_max", |config| config.fan_out_members_max = 501),
            ("messages.receivers", |config| config.receivers = 0),
            ("messages.receivers_of_user", |config| config.receivers_of_user = 0),
        ];
        for (key, change) in changes {
            assert_eq!(key_at_fault(change), Some(key));
        }
    }
}
