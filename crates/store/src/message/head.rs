//! Log heads, and message headers.

use super::{Message, MessageKind, Seq};
use crate::{MessageHeader, UserId};

/// The most logs in one [`MessageStore::heads`](super::MessageStore::heads) call.
pub const HEADS_AT_ONCE: usize = 100;

/// A message's header, for unread counts: read without the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHeader {
    /// See [`MessageHeader::seq`].
    pub seq: Seq,
    /// See [`MessageHeader::sender`].
    pub sender: Option<UserId>,
    /// See [`MessageHeader::silent`].
    pub silent: bool,
    /// See [`MessageHeader::recalled`].
    pub recalled: bool,
    /// See [`MessageHeader::mentions`].
    pub mentions: Vec<UserId>,
    /// See [`MessageHeader::mention_all`].
    pub mention_all: bool,
}

impl StoredHeader {
    /// Returns a message's header.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        Self {
            seq: message.seq,
            sender: message.sender,
            silent: message.silent || message.kind == MessageKind::Event,
            recalled: message.recalled.is_some(),
            mentions: message.mentions.clone(),
            mention_all: message.mention_all,
        }
    }
}

impl<'a> From<&'a StoredHeader> for MessageHeader<'a> {
    fn from(header: &'a StoredHeader) -> Self {
        Self {
            seq: header.seq,
            sender: header.sender,
            silent: header.silent,
            recalled: header.recalled,
            mentions: &header.mentions,
            mention_all: header.mention_all,
        }
    }
}

/// A log's end, for lists. It shows one moment, except that headers may be newer: what an event below the end
/// changed is in the headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHead {
    /// The last message; `None`: there is none.
    pub last: Option<Message>,
    /// The headers of those of the last [`DOCUMENT`](super::DOCUMENT) messages that were asked for, by rising
    /// number.
    pub headers: Vec<StoredHeader>,
}
