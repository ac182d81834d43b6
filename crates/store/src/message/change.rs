//! Message recalls and edits.

use bytes::Bytes;

use super::{Message, MessageKey, NewMessage, Seq};
use crate::{Text, Timestamp, UserId};

/// How often a message was edited, and when the last edit was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edited {
    /// How many edits; above 0.
    pub count: u32,
    /// When the last edit was made.
    pub last: Timestamp,
    /// The event number of the last edit. `None`: an earlier version stored the edit, without it.
    pub event: Option<Seq>,
}

/// Records that a message's content was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// The party that removed it.
    pub by: RecalledBy,
    /// When it was removed.
    pub time: Timestamp,
}

/// The party that removed a message's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecalledBy {
    /// The sender, or a user who moderates the group.
    User(UserId),
    /// A service removed it.
    Service,
    /// All the sender's messages were erased.
    Erasure,
}

/// A change to one message, and its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageChange {
    /// The message's number.
    pub seq: Seq,
    /// How its content changes.
    pub content: ContentChange,
    /// The event, which is appended with the change. Its key is the change's key ([`MessageKey::of_recall`],
    /// [`MessageKey::of_edit`]). Its hash covers what the change does: two changes with the same key and hash
    /// are the same.
    pub event: NewMessage,
}

/// How a change affects a message's content, and the state that the message must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentChange {
    /// Removes content type, body, mentions and the client's id. Number, sender, times, key and hash stay.
    /// The message has its content.
    Recall(Recalled),
    /// Replaces the content. The message has its content and was edited this number of times.
    Edit(NewContent),
}

/// A message's new content.
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
    /// How many edits came before.
    pub edits_before: u32,
    /// When the edit is made.
    pub time: Timestamp,
}

/// How a change ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageChangeOutcome {
    /// It was made, now or by an earlier call.
    Done {
        /// The present message.
        message: Message,
        /// The event's number.
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
    /// How it is stored: the user's id, 0 for an erasure, -1 for a service.
    #[must_use]
    pub const fn number(self) -> i64 {
        match self {
            Self::User(user) => user.get(),
            Self::Erasure => 0,
            Self::Service => -1,
        }
    }

    /// Reverses [`Self::number`]; `None`: no such number is stored.
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
    /// The stored form: how many edits there were, when the last was made, in milliseconds, and its event's
    /// number. `None`: not edited.
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
    /// The message's edits after the change, whose event has this number.
    #[must_use]
    pub const fn edited(&self, event: Seq) -> Edited {
        Edited { count: self.edits_before.saturating_add(1), last: self.time, event: Some(event) }
    }
}

impl MessageKey {
    /// The key for a recall's event. No client's id has a colon.
    #[must_use]
    pub fn of_recall(seq: Seq) -> Self {
        Self::of(None, &format!("recall:{seq}"))
    }

    /// The key for the event when a message that was edited this often before is edited.
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
