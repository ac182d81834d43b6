mod changes;
mod commands;
mod feed;
mod interleaved;
mod rollback;
mod scripted;
mod stage;
mod time;

use kith_store::{
    Appended, ContentHash, ConversationId, GroupId, MessageKey, MessageKind, NewMessage, Seq, Timestamp,
    UserId,
};

fn log() -> ConversationId {
    ConversationId::Group(GroupId::new(9).unwrap())
}

/// A message whose body is its id.
fn message(id: &str) -> NewMessage {
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
fn batch(ids: &str, count: usize) -> Vec<NewMessage> {
    (1..=count).map(|number| message(&format!("{ids}-{number}"))).collect()
}

fn messages<const N: usize>(ids: [&str; N]) -> Vec<NewMessage> {
    ids.map(message).to_vec()
}

/// The result of messages with these appended numbers.
fn new(seqs: impl IntoIterator<Item = Seq>) -> Vec<Appended> {
    seqs.into_iter().map(Appended::New).collect()
}

/// The result of a message that is in the log at this number.
fn replayed(seq: Seq) -> Appended {
    Appended::Replayed { seq, sent: message("").sent }
}
