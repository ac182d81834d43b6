//! Recalls and edits of messages.

use bytes::Bytes;

use super::{Message, MessageKey, NewMessage, Seq};
use crate::{Text, Timestamp, UserId};

/// The number of edits of a message, and the time of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edited {
    /// Number of edits; above 0.
    pub count: u32,
    /// Time of the last edit.
    pub last: Timestamp,
    /// The number of the event of the last edit. `None`: an earlier version stored the edit, without it.
    pub event: Option<Seq>,
}

/// The removal of a message's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// The party.
    pub by: RecalledBy,
    /// The time.
    pub time: Timestamp,
}

/// The party that removed the content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecalledBy {
    /// The sender, or a user who moderates the group.
    User(UserId),
    /// A service.
    Service,
    /// All messages of the sender were erased.
    Erasure,
}

/// A change of one message, and its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageChange {
    /// The message.
    pub seq: Seq,
    /// The change of its content.
    pub content: ContentChange,
    /// The event, which is appended with the change. Its key is that of the change ([`MessageKey::of_recall`],
    /// [`MessageKey::of_edit`]). Its hash is of what the change does: two changes of one key and one hash are the same.
    pub event: NewMessage,
}

/// The effect of a change on the content of a message, and the required state of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentChange {
    /// Content type, body, mentions and the id of the client are removed. Number, sender, times, key and hash stay. The message
    /// has its content.
    Recall(Recalled),
    /// The content is replaced. The message has its content and was edited this number of times.
    Edit(NewContent),
}

/// The new content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewContent {
    /// See [`Message::content_type`].
    pub content_type: Text,
    /// See [`Message::body`]; at most [`BODY_BYTES_MAX`](super::BODY_BYTES_MAX).
    pub body: Bytes,
    /// See [`Message::mentions`]; at most [`MENTIONS_MAX`](super::MENTIONS_MAX).
    pub mentions: Vec<UserId>,
    /// See [`Message::mention_all`].
    pub mention_all: bool,
    /// Number of earlier edits.
    pub edits_before: u32,
    /// Time of the edit.
    pub time: Timestamp,
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageChangeOutcome {
    /// It was made, now or by an earlier call.
    Done {
        /// The present message.
        message: Message,
        /// The number of the event.
        event_seq: Seq,
        /// When the event was sent.
        event_sent: Timestamp,
        /// Whether an earlier call made it: an event with the key and the hash exists already.
        replayed: bool,
    },
    /// The message, which is in another state. Nothing was changed.
    Refused(Message),
    /// There is no message with the number.
    Missing,
}

impl RecalledBy {
    /// How it is stored: the id of the user, 0 for an erasure, -1 for a service.
    #[must_use]
    pub const fn number(self) -> i64 {
        match self {
            Self::User(user) => user.get(),
            Self::Erasure => 0,
            Self::Service => -1,
        }
    }

    /// The inverse of [`Self::number`]; `None`: no such number is stored.
    #[must_use]
    pub fn of(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::Erasure),
            -1 => Some(Self::Service),
            user => UserId::new(user).ok().map(Self::User),
        }
    }
}

impl Edited {
    /// The stored form: the number of edits, the time of the last one in milliseconds, and the number of its event.
    /// `None`: not edited.
    #[must_use]
    pub fn of(count: i64, last: i64, event: Option<Seq>) -> Option<Self> {
        let count = u32::try_from(count).ok().filter(|count| *count > 0)?;
        Some(Self { count, last: Timestamp(last), event })
    }
}

impl ContentChange {
    /// Whether a message is in the state that the change needs. Events are never changed.
    #[must_use]
    pub fn applies_to(&self, message: &Message) -> bool {
        let has_content = message.recalled.is_none() && message.kind == super::MessageKind::Message;
        let edits = message.edited.map_or(0, |edited| edited.count);
        has_content
            && match self {
                Self::Recall(_) => true,
                Self::Edit(content) => content.edits_before == edits,
            }
    }
}

impl NewContent {
    /// The edits of the message after the change, whose event has this number.
    #[must_use]
    pub const fn edited(&self, event: Seq) -> Edited {
        Edited { count: self.edits_before.saturating_add(1), last: self.time, event: Some(event) }
    }
}

impl MessageKey {
    /// The key of the event of a recall. No id of a client has a colon.
    #[must_use]
    pub fn of_recall(seq: Seq) -> Self {
        Self::of(None, &format!("recall:{seq}"))
    }

    /// The key of the event of an edit of a message with this number of earlier edits.
    #[must_use]
    pub fn of_edit(seq: Seq, edits_before: u32) -> Self {
        Self::of(None, &format!("edit:{seq}:{edits_before}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_who_recalled_are_read_back() {
        let user = RecalledBy::User(UserId::new(7).unwrap());
        for by in [user, RecalledBy::Service, RecalledBy::Erasure] {
            assert_eq!(RecalledBy::of(by.number()), Some(by));
        }
        assert_eq!(RecalledBy::of(-2), None);
        assert_eq!((user.number(), RecalledBy::Erasure.number()), (7, 0));
    }

    #[test]
    fn edit_counts_from_one() {
        assert_eq!(Edited::of(0, 7, None), None);
        assert_eq!(Edited::of(-1, 7, Some(9)), None);
        for event in [None, Some(9)] {
            assert_eq!(Edited::of(2, 7, event), Some(Edited { count: 2, last: Timestamp(7), event }));
        }
    }

    #[test]
    fn each_change_has_its_own_key() {
        let keys = [
            MessageKey::of_recall(1),
            MessageKey::of_recall(11),
            MessageKey::of_edit(1, 1),
            MessageKey::of_edit(11, 1),
            MessageKey::of_edit(1, 11),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key));
        }
        assert!(NewMessage::client_message_id("recall:1").is_err(), "no client can take it");
    }
}
