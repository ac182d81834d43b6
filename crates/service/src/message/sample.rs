//! Messages that tests start from.

use kith_store::{
    ContentHash, ConversationId, GroupId, Message, MessageKey, MessageKind, NewMessage, Seq, Timestamp,
};

pub(super) fn group(id: i64) -> ConversationId {
    ConversationId::Group(GroupId::new(id).unwrap())
}

/// A message of a service with this id and a body of so many bytes.
pub(super) fn message(id: &str, bytes: usize) -> NewMessage {
    let body = vec![7; bytes];
    NewMessage {
        key: MessageKey::of(None, id),
        hash: ContentHash::of("", &body),
        sender: None,
        sent: Timestamp(7),
        kind: MessageKind::Message,
        content_type: "".into(),
        body: body.into(),
        mentions: Vec::new(),
        mention_all: false,
        silent: false,
        reply_to: None,
        client_message_id: Some(id.into()),
    }
}

/// The same, as it is stored under a number.
pub(super) fn stored(seq: Seq, bytes: usize) -> Message {
    let new = message(&seq.to_string(), bytes);
    Message {
        seq,
        sender: new.sender,
        sent: new.sent,
        kind: new.kind,
        content_type: new.content_type,
        body: new.body,
        mentions: new.mentions,
        mention_all: new.mention_all,
        silent: new.silent,
        reply_to: new.reply_to,
        client_message_id: new.client_message_id,
        edited: None,
        recalled: None,
    }
}
