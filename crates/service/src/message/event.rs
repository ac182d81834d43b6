//! Events as conversation messages.

use kith_proto::message::v1::{Event, event::What};
use kith_store::{ContentHash, Message, MessageKey, MessageKind, NewMessage, Timestamp};
use prost::Message as _;

/// An event's message. It is silent, and has no sender. An event is appended once for each key.
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

/// Whether a message is an erasure's event, by which other messages lost their content.
pub(super) fn is_erasure(message: &Message) -> bool {
    let event = (message.kind == MessageKind::Event).then(|| Event::decode(message.body.clone()));
    matches!(event, Some(Ok(Event { what: Some(What::Erased(_)) })))
}

#[cfg(test)]
mod tests {
    use kith_proto::message::v1::{MessageRecalled, MessagesErased};

    use super::*;

    #[test]
    fn only_the_event_of_an_erasure_is_one() {
        let event = |what| event_message(MessageKey::of(None, "x"), what, Timestamp(1)).numbered(7);
        let erased = event(What::Erased(MessagesErased { user_id: 8 }));
        assert!(is_erasure(&erased));
        assert!(!is_erasure(&event(What::Recalled(MessageRecalled { seq: 1, user_id: 8 }))));
        let of_a_user = Message { kind: MessageKind::Message, ..erased };
        assert!(!is_erasure(&of_a_user), "a body of a user is no event");
    }
}
