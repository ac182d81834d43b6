//! The order of conversations in lists.

use std::cmp::{Ordering, Reverse};

use kith_store::{ConversationId, Timestamp};

/// A conversation's position in a user's list: pinned conversations come first, then the order is by the last
/// message's time, the latest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DialogPosition {
    pub(super) pinned: bool,
    /// When the last message was sent; the smallest number if the log is empty.
    pub(super) time: Timestamp,
    pub(super) conversation: ConversationId,
}

impl DialogPosition {
    /// The form in page tokens.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let Self { pinned, time, conversation } = self;
        [&[u8::from(pinned)][..], &time.0.to_be_bytes(), conversation.to_string().as_bytes()].concat()
    }

    /// Parses the form in page tokens.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (pinned, rest) = bytes.split_first()?;
        let (time, conversation) = rest.split_first_chunk()?;
        Some(Self {
            pinned: *pinned != 0,
            time: Timestamp(i64::from_be_bytes(*time)),
            conversation: str::from_utf8(conversation).ok()?.parse().ok()?,
        })
    }

    fn rank(self) -> (Reverse<bool>, Reverse<Timestamp>, ConversationId) {
        (Reverse(self.pinned), Reverse(self.time), self.conversation)
    }
}

impl Ord for DialogPosition {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for DialogPosition {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(pinned: bool, time: i64, conversation: &str) -> DialogPosition {
        DialogPosition { pinned, time: Timestamp(time), conversation: conversation.parse().unwrap() }
    }

    #[test]
    fn position_survives_its_bytes() {
        for position in [position(true, -5, "g9"), position(false, i64::MAX, "d7-9223372036854775807")] {
            assert_eq!(DialogPosition::of_bytes(&position.to_bytes()), Some(position));
        }
        for wrong in [&b""[..], &[1; 8], &[0; 9], b"\x01\0\0\0\0\0\0\0\x05x9"] {
            assert_eq!(DialogPosition::of_bytes(wrong), None);
        }
    }
}
