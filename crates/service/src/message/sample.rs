//! Messages for tests.

use std::{sync::Arc, time::Duration};

use kith_cache::{Node, Policy, SystemClock};
use kith_delivery::{WindowLimits, Windows};
use kith_store::{
    ContentHash, ConversationId, GroupId, LogDocument, Message, MessageKey, MessageKind, MessageStore,
    NewMessage, Seq, Timestamp,
};

use super::logs::Logs;
use crate::write::{
    caches::CacheFactory,
    mutations::{Mutations, WriteLimits},
};

/// A store's messages, without windows.
pub(super) fn logs(store: Arc<dyn MessageStore>) -> Logs {
    let windows = Windows::none(Arc::clone(&store), Arc::new(SystemClock::new()), WindowLimits::default());
    let caches = CacheFactory::alone(Node::local(1));
    Logs::new(store, &caches, Policy::new("document", LogDocument::weight), windows)
}

/// Writes on a node that has no others.
pub(super) fn mutations() -> Mutations {
    let wait = Duration::from_secs(10);
    let limits = WriteLimits { at_once: 8, wait, takes: wait, answer: wait };
    Mutations::new(Node::local(1), &limits)
}

pub(super) fn group(id: i64) -> ConversationId {
    ConversationId::Group(GroupId::new(id).unwrap())
}

/// A message by a service with this id and a body this large.
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

/// Like `message`, but as it is stored under a number.
pub(super) fn stored(seq: Seq, bytes: usize) -> Message {
    message(&seq.to_string(), bytes).numbered(seq)
}
