//! What is configured about messages, with its defaults.

use std::time::Duration;

use kith_store::{BODY_BYTES_MAX, SUCCESSOR_AGE};
use serde::{Deserialize, Serialize};

use super::waiting::STEP_MAX;
use crate::{
    invalid_value::{InvalidValue, wrong},
    size,
};

/// Messages.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MessagesConfig {
    /// Most bytes of a body. Above 0, at most 64KiB.
    #[serde(with = "size")]
    pub body_bytes_max: usize,
    /// From whom users take direct messages.
    pub direct_from: DirectFrom,
    /// Most messages that wait on a node to be stored. Above 0, not below `messages.queue_of_one`.
    pub queue: usize,
    /// Most messages that wait on a node for one conversation. Above 0, not below 100: one BatchSend may send so many.
    pub queue_of_one: usize,
    /// Most conversations of a user that are listed. Above 0, at most 2000.
    pub conversations_max: usize,
    /// Whether joins, leaves, removals, new owners and new names of groups are appended to their conversations as messages of
    /// the kind event.
    pub events: bool,
    /// How long messages are kept at least; 0s: for ever. They are removed 100 at a time, when the next 100 of the conversation were
    /// begun so long ago. The last of a conversation are never removed for their age. 0s, or not below 1h.
    #[serde(with = "humantime_serde")]
    pub kept: Duration,
}

/// Each page of a list reads the end of all of them.
const CONVERSATIONS_MAX: usize = 2_000;

/// From whom users take direct messages.
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
        Self {
            body_bytes_max: BODY_BYTES_MAX,
            direct_from: DirectFrom::Everybody,
            queue: 10_000,
            queue_of_one: 1_000,
            conversations_max: CONVERSATIONS_MAX,
            events: true,
            kept: Duration::ZERO,
        }
    }
}

impl MessagesConfig {
    /// Whether each value can be taken, and all of them together.
    ///
    /// # Errors
    /// Names the key and its limit.
    pub fn check(&self) -> Result<(), InvalidValue> {
        if !(1..=BODY_BYTES_MAX).contains(&self.body_bytes_max) {
            let text = format!("is {}; it must be from 1 to {BODY_BYTES_MAX}", self.body_bytes_max);
            return wrong("messages.body_bytes_max", &text);
        }
        if self.queue_of_one < STEP_MAX {
            let text = format!("is {}; it must not be below {STEP_MAX}", self.queue_of_one);
            return wrong("messages.queue_of_one", &text);
        }
        if self.queue < self.queue_of_one {
            let text = format!(
                "is {}; it must not be below messages.queue_of_one, {}",
                self.queue, self.queue_of_one
            );
            return wrong("messages.queue", &text);
        }
        if !(1..=CONVERSATIONS_MAX).contains(&self.conversations_max) {
            let text = format!("is {}; it must be from 1 to {CONVERSATIONS_MAX}", self.conversations_max);
            return wrong("messages.conversations_max", &text);
        }
        if !self.kept.is_zero() && self.kept < SUCCESSOR_AGE {
            let text = format!("is {:?}; it must be 0s, or not below 1h", self.kept);
            return wrong("messages.kept", &text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_at_fault(change: impl FnOnce(&mut MessagesConfig)) -> Option<&'static str> {
        let mut config = MessagesConfig::default();
        change(&mut config);
        config.check().err().map(|wrong| wrong.key)
    }

    #[test]
    fn values_out_of_bounds_are_refused() {
        assert_eq!(key_at_fault(|_| {}), None);
        assert_eq!(key_at_fault(|config| config.body_bytes_max = 1), None);
        assert_eq!(key_at_fault(|config| config.body_bytes_max = 0), Some("messages.body_bytes_max"));
        let above = BODY_BYTES_MAX + 1;
        assert_eq!(key_at_fault(|config| config.body_bytes_max = above), Some("messages.body_bytes_max"));
        assert_eq!(key_at_fault(|config| config.queue_of_one = 99), Some("messages.queue_of_one"));
        assert_eq!(key_at_fault(|config| config.queue = 999), Some("messages.queue"));
        for most in [0, 2_001] {
            let at_fault = key_at_fault(|config| config.conversations_max = most);
            assert_eq!(at_fault, Some("messages.conversations_max"));
        }
        assert_eq!(key_at_fault(|config| config.kept = SUCCESSOR_AGE), None);
        let at_fault = key_at_fault(|config| config.kept = Duration::from_secs(3_599));
        assert_eq!(at_fault, Some("messages.kept"));
    }
}
