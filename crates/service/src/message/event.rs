//! Events as messages of a conversation.

use kith_proto::message::v1::{Event, event::What};
use kith_store::{ContentHash, Message, MessageKey, MessageKind, NewMessage, Timestamp};
use prost::Message as _;

/// The message that says what happened. It is silent, and no user has sent it. An event is appended once with a key.
pub(super) fn event_message(key: MessageKey, what: What, sent: Timestamp) -> NewMessage {
    let body = Event { what: Some(what) }.encode_to_vec();
    NewMessage {
        key,
        hash: ContentHash::of("", &body),
        sender: None,
        sent,
        kind: MessageKind::Event,
        content_type: "".into(),
        body: body.into(),
        mentions: Vec::new(),
        mention_all: false,
        silent: true,
        reply_to: None,
        client_message_id: None,
    }
}

/// Whether a message is the event of an erasure: then others have lost their content.
pub(super) fn is_erasure(message: &Message) -> bool {
    let event = (message.kind == MessageKind::Event).then(|| Event::decode(message.body.clone()));
    matches!(event, Some(Ok(Event { what: Some(What::Erased(_)) })))
}
