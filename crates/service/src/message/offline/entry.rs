//! Entries of the logs: one for each message.

use kith_proto::message::v1 as wire;
use kith_store::{
    ContentHash, ConversationId, Message, MessageKey, MessageKind, NewMessage, Timestamp, UserId,
};
use prost::{Message as _, bytes::Bytes};

use super::{AbsentRecipients, recipient_state::RecipientState};
use crate::rpc::versions::wire_time;

/// The same for all entries, so that a second entry of a message is a replay, also if it names other users.
const HASH: ContentHash = ContentHash([0; 8]);

/// The entry of a message for those of the absent users who are to be notified; `None`: no user is.
pub(super) fn of(
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
    (!users.is_empty()).then(|| entry(conversation, message, named.encode_to_vec().into()))
}

/// The content of an entry; `None`: this program cannot decode it.
pub(super) fn read(entry: &Message) -> Option<wire::OfflineMessage> {
    wire::OfflineMessage::decode(entry.body.clone()).ok()
}

fn entry(conversation: ConversationId, message: &Message, body: Bytes) -> NewMessage {
    NewMessage {
        key: MessageKey::of(None, &format!("{conversation}:{}", message.seq)),
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
