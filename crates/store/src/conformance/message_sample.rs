//! Messages and logs that the cases start from.

use std::fmt::Debug;

use bytes::Bytes;

use super::sample::{group_id, user_id};
use crate::{
    Appended, ContentHash, ConversationId, DOCUMENT, Message, MessageKey, MessageKind, NewMessage, Seq,
    StoreError, Stores, Timestamp,
};

const CONTENT_TYPE: &str = "text/plain";

/// Returns a group's conversation. Most cases use a single group.
pub fn log_of(group: i64) -> ConversationId {
    ConversationId::Group(group_id(group))
}

/// A moment. The messages are sent at 0 where a case sets no other time.
pub(super) fn at(milliseconds: i64) -> Timestamp {
    Timestamp(1_700_000_000_000 + milliseconds)
}

/// A message from user 7 with this id, whose body is the id.
pub fn message(id: &str) -> NewMessage {
    with_body(id, id.to_owned())
}

/// Like `message`, but with another body.
pub(super) fn with_body(id: &str, body: impl Into<Bytes>) -> NewMessage {
    let (sender, body) = (Some(user_id(7)), body.into());
    NewMessage {
        key: MessageKey::of(sender, id),
        hash: ContentHash::of(CONTENT_TYPE, &body),
        sender,
        sent: at(0),
        kind: MessageKind::Message,
        content_type: CONTENT_TYPE.into(),
        body,
        mentions: Vec::new(),
        mention_all: false,
        silent: false,
        reply_to: None,
        client_message_id: Some(id.into()),
    }
}

/// Messages `ids-1` to `ids-count`.
pub fn batch(ids: &str, count: usize) -> Vec<NewMessage> {
    (1..=count).map(|number| message(&format!("{ids}-{number}"))).collect()
}

/// The stored form of a message that got this number.
pub(super) fn stored(new: &NewMessage, seq: Seq) -> Message {
    Message {
        seq,
        sender: new.sender,
        sent: new.sent,
        kind: new.kind,
        content_type: new.content_type.clone(),
        body: new.body.clone(),
        mentions: new.mentions.clone(),
        mention_all: new.mention_all,
        silent: new.silent,
        reply_to: new.reply_to,
        client_message_id: new.client_message_id.clone(),
        edited: None,
        recalled: None,
    }
}

/// The stored form of a batch that got the numbers from `first` on.
pub(super) fn stored_from(first: Seq, batch: &[NewMessage]) -> Vec<Message> {
    (first..).zip(batch).map(|(seq, new)| stored(new, seq)).collect()
}

pub(super) async fn append(
    stores: &Stores,
    conversation: ConversationId,
    batch: &[NewMessage],
) -> Vec<Appended> {
    let appended = stores.messages.append(conversation, batch).await.unwrap();
    assert_eq!(appended.len(), batch.len(), "each message has a result");
    appended
}

/// Appends messages in batches that fill a document.
pub(super) async fn fill(stores: &Stores, conversation: ConversationId, messages: &[NewMessage]) {
    for some in messages.chunks(usize::try_from(DOCUMENT).unwrap()) {
        new_numbers(&append(stores, conversation, some).await);
    }
}

/// Returns the numbers that messages got, which were all appended.
pub(super) fn new_numbers(appended: &[Appended]) -> Vec<Seq> {
    let number = |one: &Appended| match one {
        Appended::New(seq) => Some(*seq),
        Appended::Replayed { .. } | Appended::OtherContent => None,
    };
    let numbers: Option<Vec<Seq>> = appended.iter().map(number).collect();
    numbers.unwrap_or_else(|| panic!("not all were appended: {appended:?}"))
}

/// The outcome for a message that was sent again: the first message's number, and the time that [`message`]
/// sets.
pub fn replayed(seq: Seq) -> Appended {
    Appended::Replayed { seq, sent: at(0) }
}

pub(super) async fn end(stores: &Stores, conversation: ConversationId) -> Seq {
    let ends = stores.messages.ends(&[conversation]).await.unwrap();
    assert_eq!(ends.len(), 1);
    ends[0].seq
}

pub(super) async fn page(
    stores: &Stores,
    conversation: ConversationId,
    first: Seq,
    last: Seq,
) -> Vec<Message> {
    stores.messages.messages(conversation, first, last).await.unwrap()
}

/// Reads all messages up to the end that is read first. Their numbers are contiguous from 1.
pub(super) async fn log(stores: &Stores, conversation: ConversationId) -> Vec<Message> {
    let (end, mut first, mut found) = (end(stores, conversation).await, 1, Vec::new());
    while first <= end {
        let last = (first + DOCUMENT - 1).min(end);
        found.extend(page(stores, conversation, first, last).await);
        first = last + 1;
    }
    let numbers: Vec<Seq> = found.iter().map(|message| message.seq).collect();
    assert_eq!(numbers, (1..=end).collect::<Vec<_>>(), "a hole, or a number twice");
    found
}

/// The call asked for more than one call may.
pub(super) fn assert_overloaded<T: Debug>(result: Result<T, StoreError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, StoreError::Overloaded), "{error:?}");
}
