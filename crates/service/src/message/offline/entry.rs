//! Log entries: one for each message.

use kith_proto::message::v1 as wire;
use kith_store::{
    ContentHash, ConversationId, Message, MessageKey, MessageKind, NewMessage, Timestamp, UserId,
};
use prost::{Message as _, bytes::Bytes};

use super::{AbsentRecipients, recipient_state::RecipientState};
use crate::rpc::versions::wire_time;

/// All entries have the same hash, so that a second entry for a message is a replay, also if it names other
/// users.
const HASH: ContentHash = ContentHash([0; 8]);

/// The parts of an entry's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// The message: all users who had no receiver when it was sent have one entry.
    OfMessage,
    /// The message and the users, who had a receiver then.
    OfUsers,
}

/// A message's entry for the absent users who are to be notified; `None`: no user is.
pub(super) fn of(
    kind: EntryKind,
    conversation: ConversationId,
    message: &Message,
    absent: &AbsentRecipients,
    known: &[(UserId, RecipientState)],
) -> Option<NewMessage> {
    let is_mentioned = |user: &UserId| message.mentions.contains(user);
    let only_mentioned = matches!(absent, AbsentRecipients::Mentioned(_));
    let is_named = |(user, state): &&(UserId, RecipientState)| {
        message.sender != Some(*user)
            && state.read_seq < message.seq
            && (is_mentioned(user) || !(only_mentioned || state.do_not_disturb))
    };
    let mut users: Vec<UserId> = known.iter().filter(is_named).map(|(user, _)| *user).collect();
    users.sort_unstable();
    users.dedup();
    let mentioned = users.iter().copied().filter(is_mentioned).map(UserId::get).collect();
    let named = wire::OfflineMessage {
        conversation_id: conversation.to_string(),
        seq: message.seq,
        sender_id: message.sender.map_or(0, UserId::get),
        send_time: Some(wire_time(message.sent)),
        user_ids: users.iter().copied().map(UserId::get).collect(),
        mentioned_user_ids: mentioned,
    };
    let mut key = format!("{conversation}:{}", message.seq);
    if kind == EntryKind::OfUsers {
        users.iter().for_each(|user| key.push_str(&format!(":{user}")));
    }
    (!users.is_empty()).then(|| entry(&key, named.encode_to_vec().into()))
}

/// An entry's content; `None`: this program cannot decode it.
pub(super) fn read(entry: &Message) -> Option<wire::OfflineMessage> {
    wire::OfflineMessage::decode(entry.body.clone()).ok()
}

fn entry(key: &str, body: Bytes) -> NewMessage {
    NewMessage {
        key: MessageKey::of(None, key),
        hash: HASH,
        sender: None,
        sent: Timestamp::now(),
        kind: MessageKind::Event,
        content_type: "".into(),
        body,
        mentions: Vec::new(),
        mention_all: false,
        silent: true,
        reply_to: None,
        client_message_id: None,
    }
}
