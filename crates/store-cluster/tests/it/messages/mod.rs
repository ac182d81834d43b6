//! The message log on a real MongoDB.

mod at_once;
mod faults;
mod plans;

use kith_store::{
    Appended, ContentHash, ConversationId, GroupId, Message, MessageKey, MessageKind, NewMessage, Seq,
    Stores, Timestamp, UserId,
};

fn log() -> ConversationId {
    log_of(9)
}

fn log_of(group: i64) -> ConversationId {
    ConversationId::Group(GroupId::new(group).unwrap())
}

/// A message whose body is its id.
pub(crate) fn message(id: &str) -> NewMessage {
    let (sender, body) = (UserId::new(7).ok(), id.as_bytes());
    NewMessage {
        key: MessageKey::of(sender, id),
        hash: ContentHash::of("text/plain", body),
        sender,
        sent: Timestamp(1_790_000_000_000),
        kind: MessageKind::Message,
        content_type: "text/plain".into(),
        body: body.to_vec().into(),
        mentions: Vec::new(),
        mention_all: false,
        silent: false,
        reply_to: None,
        client_message_id: Some(id.into()),
    }
}

/// Messages `ids-1` to `ids-count`.
pub(crate) fn batch(ids: &str, count: usize) -> Vec<NewMessage> {
    (1..=count).map(|number| message(&format!("{ids}-{number}"))).collect()
}

async fn fill(stores: &Stores, messages: &[NewMessage]) {
    for some in messages.chunks(100) {
        let appended = stores.messages.append(log(), some).await.unwrap();
        assert!(appended.iter().all(|one| matches!(one, Appended::New(_))), "{appended:?}");
    }
}

/// The whole log, whose numbers must be contiguous.
async fn read(stores: &Stores) -> Vec<Message> {
    let end = stores.messages.strong_end(log()).await.unwrap();
    let mut found = Vec::new();
    for first in (1..=end).step_by(100) {
        found.extend(stores.messages.messages(log(), first, first + 99).await.unwrap());
    }
    assert!(found.iter().map(|message| message.seq).eq(1..=end), "a hole, or a number twice");
    found
}

/// What came back for a message that is in the log at this number.
fn replayed(seq: Seq) -> Appended {
    Appended::Replayed { seq, sent: message("").sent }
}
