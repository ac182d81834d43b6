//! Messages in conversations: records and numbers.

mod change;
mod conversation_id;
mod document;
mod erasure;
mod fan_out_note;
mod head;
mod new_message;
mod store;
mod upkeep;

use bytes::Bytes;

use crate::{Text, Timestamp, UserId};

pub use change::{
    ContentChange, Edited, MessageChange, MessageChangeOutcome, NewContent, Recalled, RecalledBy,
};
pub use conversation_id::ConversationId;
pub use document::{DocumentKey, LogDocument};
pub use erasure::{Erasure, ErasureCursor, ErasureStore};
pub use fan_out_note::{DueNote, FanOutNote, FanOutNoteStore};
pub use head::{HEADS_AT_ONCE, LogHead, StoredHeader};
pub use new_message::{
    BODY_BYTES_MAX, CLIENT_MESSAGE_ID_CHARS_MAX, CONTENT_TYPE_CHARS_MAX, ContentHash, MENTIONS_MAX,
    MessageKey, NewMessage,
};
pub use store::{Appended, DOCUMENT, LogEnd, MessageStore, document_of, document_parts, in_one_document};
pub use upkeep::{
    AgedDocument, CompletedTimes, DOCUMENTS_READ, MessageUpkeep, SEARCHED_AT_ONCE, SUCCESSOR_AGE,
    SentDocuments, TRIMMED_AT_ONCE, TrimRemainder, TrimResult, removable_documents,
};

/// A message's number in its conversation. The first is 1, and there are no gaps. 0 means "before the first".
pub type Seq = i64;

/// A message as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number in the conversation.
    pub seq: Seq,
    /// The user who sent it; `None`: a service.
    pub sender: Option<UserId>,
    /// When the node received it. Informative: the numbers give the order.
    pub sent: Timestamp,
    /// Whether it was written by users or by Kith.
    pub kind: MessageKind,
    /// The body's media type, as the sender set it; may be empty.
    pub content_type: Text,
    /// The content; for an event: an encoded `kith.message.v1.Event`.
    pub body: Bytes,
    /// The users whom it mentions, in the order that the sender set.
    pub mentions: Vec<UserId>,
    /// Whether it mentions every reader.
    pub mention_all: bool,
    /// Whether it leaves unread counts as they are.
    pub silent: bool,
    /// The message that it answers.
    pub reply_to: Option<Seq>,
    /// The id that the sender chose.
    pub client_message_id: Option<Text>,
    /// Its edits; `None`: never edited.
    pub edited: Option<Edited>,
    /// When its content was removed; `None`: it has its content. Otherwise content type, body, mentions and
    /// the client's id are empty.
    pub recalled: Option<Recalled>,
}

impl Message {
    /// Whether its content comes from an event above this number. An edit without its event's number counts
    /// as such.
    #[must_use]
    pub fn is_edited_above(&self, seq: Seq) -> bool {
        self.edited.is_some_and(|edited| edited.event.is_none_or(|event| event > seq))
    }

    /// Approximate size in bytes, for the bounds that pages and caches have.
    #[must_use]
    pub fn weight(&self) -> usize {
        let mentions = self.mentions.len() * size_of::<UserId>();
        size_of::<Self>() + self.body.len() + self.content_type.len() + mentions
    }
}

/// A message's origin. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageKind {
    /// A user or a service.
    Message = 1,
    /// Kith, for an event in the conversation: a member joined, a message was recalled.
    Event = 2,
}

impl MessageKind {
    /// The kind with this number; `None`: there is none.
    #[must_use]
    pub const fn of(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Message),
            2 => Some(Self::Event),
            _ => None,
        }
    }
}
