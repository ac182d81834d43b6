//! Messages to be appended.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::{Message, MessageKind, Seq};
use crate::{Invalid, Text, Timestamp, UserId};

/// The most bytes in a body, whatever is configured: a document with 100 messages stays below MongoDB's 16
/// MiB.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// The most characters in a content type.
pub const CONTENT_TYPE_CHARS_MAX: usize = 128;
/// The most users that one message mentions.
pub const MENTIONS_MAX: usize = 50;
/// The most characters in the id that a client gives a message.
pub const CLIENT_MESSAGE_ID_CHARS_MAX: usize = 64;

/// Identifies repeated sends of a message: the first 16 bytes of SHA-256 over the sender and the client's id,
/// or random bytes. Every message has a key, because MongoDB's unique index treats absent values as equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey(pub [u8; 16]);

impl MessageKey {
    /// The key for the message to which this sender gave this id (`None`: a service).
    #[must_use]
    pub fn of(sender: Option<UserId>, client_message_id: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(sender.map_or(0, UserId::get).to_le_bytes());
        hash.update(client_message_id);
        Self(first_bytes(&hash.finalize()))
    }

    /// Binds this key to a later account with the sender's id: the accounts before chose their ids without
    /// it.
    #[must_use]
    pub fn of_account(self, account: u32) -> Self {
        if account == 0 {
            return self;
        }
        let hash = Sha256::new().chain_update(self.0).chain_update(account.to_le_bytes());
        Self(first_bytes(&hash.finalize()))
    }
}

/// 8 bytes of SHA-256 over content type and body as they were sent. A repeated id is compared with it, also
/// after the message was edited or recalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash(pub [u8; 8]);

impl ContentHash {
    /// Hashes this content.
    #[must_use]
    pub fn of(content_type: &str, body: &[u8]) -> Self {
        let mut hash = Sha256::new();
        // The length separates the two fields: no content type is as long as 2^64.
        hash.update((content_type.len() as u64).to_le_bytes());
        hash.update(content_type);
        hash.update(body);
        Self(first_bytes(&hash.finalize()))
    }
}

fn first_bytes<const N: usize>(digest: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| digest[at])
}

/// A message to be appended. The append assigns its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// Identifies repeated sends of the message.
    pub key: MessageKey,
    /// The hash with which a repeated send's content is compared.
    pub hash: ContentHash,
    /// See [`Message::sender`](super::Message::sender).
    pub sender: Option<UserId>,
    /// See [`Message::sent`](super::Message::sent).
    pub sent: Timestamp,
    /// See [`Message::kind`](super::Message::kind).
    pub kind: MessageKind,
    /// See [`Message::content_type`](super::Message::content_type).
    pub content_type: Text,
    /// See [`Message::body`](super::Message::body); at most [`BODY_BYTES_MAX`].
    pub body: Bytes,
    /// See [`Message::mentions`](super::Message::mentions); at most [`MENTIONS_MAX`].
    pub mentions: Vec<UserId>,
    /// See [`Message::mention_all`](super::Message::mention_all).
    pub mention_all: bool,
    /// See [`Message::silent`](super::Message::silent).
    pub silent: bool,
    /// See [`Message::reply_to`](super::Message::reply_to).
    pub reply_to: Option<Seq>,
    /// See [`Message::client_message_id`](super::Message::client_message_id).
    pub client_message_id: Option<Text>,
}

impl NewMessage {
    /// Checks a client's message id: 1 to 64 of `A-Z a-z 0-9 _ -`.
    ///
    /// # Errors
    /// If it is empty, too long, or has another character.
    pub fn client_message_id(text: &str) -> Result<Text, Invalid> {
        let fits = (1..=CLIENT_MESSAGE_ID_CHARS_MAX).contains(&text.len());
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if fits && plain {
            Ok(text.into())
        } else {
            Err(Invalid::fixed("must be 1 to 64 of A-Z a-z 0-9 _ -"))
        }
    }

    /// Checks a content type: visible ASCII characters and spaces, at most [`CONTENT_TYPE_CHARS_MAX`]; may be
    /// empty.
    ///
    /// # Errors
    /// If it is longer, or has another character.
    pub fn content_type(text: &str) -> Result<Text, Invalid> {
        let fits = text.len() <= CONTENT_TYPE_CHARS_MAX;
        let visible = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if fits && visible {
            Ok(text.into())
        } else {
            Err(Invalid::fixed("must be at most 128 visible ASCII characters"))
        }
    }

    /// The stored message with this number.
    #[must_use]
    pub fn numbered(self, seq: Seq) -> Message {
        Message {
            seq,
            sender: self.sender,
            sent: self.sent,
            kind: self.kind,
            content_type: self.content_type,
            body: self.body,
            mentions: self.mentions,
            mention_all: self.mention_all,
            silent: self.silent,
            reply_to: self.reply_to,
            client_message_id: self.client_message_id,
            edited: None,
            recalled: None,
        }
    }

    /// Approximate size in bytes, for a batch's bound.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>()
            + self.body.len()
            + self.content_type.len()
            + self.mentions.len() * size_of::<UserId>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_an_id_have_other_keys() {
        let key = MessageKey::of(UserId::new(7).ok(), "a");
        assert_eq!(key.of_account(0), key);
        assert!(key.of_account(1) != key && key.of_account(1) != key.of_account(2));
    }

    #[test]
    fn key_depends_on_sender_and_id() {
        let ann = UserId::new(7).ok();
        assert_eq!(MessageKey::of(ann, "a"), MessageKey::of(ann, "a"));
        assert_ne!(MessageKey::of(ann, "a"), MessageKey::of(ann, "b"));
        assert_ne!(MessageKey::of(ann, "a"), MessageKey::of(None, "a"));
    }

    #[test]
    fn hash_keeps_the_border_between_type_and_body() {
        assert_ne!(ContentHash::of("ab", b"c"), ContentHash::of("a", b"bc"));
    }

    #[test]
    fn ids_of_clients_are_checked() {
        assert!(NewMessage::client_message_id(&"a".repeat(64)).is_ok());
        for text in ["", "a b", "ä", "a.b", &"a".repeat(65)] {
            assert!(NewMessage::client_message_id(text).is_err(), "{text}");
        }
    }
}
