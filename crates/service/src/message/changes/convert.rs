//! Changes between the wire and the domain.

use kith_proto::message::v1 as wire;
use kith_store::{ConversationId, NewMessage};

use super::{
    super::convert::{self, check_content, message_to_wire},
    ChangeTarget, ChangedMessage, MessageEdit,
};
use crate::{
    error::{Error, valid},
    rpc::call::Principal,
};

/// The message to be changed, and the acting user.
pub(super) fn target(
    user_id: i64,
    conversation_id: &str,
    seq: i64,
    principal: Principal,
) -> Result<ChangeTarget, Error> {
    if seq < 1 {
        return Err(Error::invalid("seq", "must be above 0"));
    }
    let conversation = convert::conversation(conversation_id)?;
    Ok(ChangeTarget { conversation, seq, by: convert::acting_user(user_id, principal)? })
}

/// An edit's new content.
pub(super) fn edit(request: wire::EditMessageRequest, body_bytes_max: usize) -> Result<MessageEdit, Error> {
    let content_type = valid("content_type", NewMessage::content_type(&request.content_type))?;
    check_content(&content_type, &request.body, body_bytes_max)?;
    let mentions = request.mentions.map(|mentions| {
        convert::mentions("mentions.user_ids", &mentions.user_ids).map(|users| (users, mentions.all))
    });
    let expected = request.expected_edits.map(u32::try_from).transpose();
    Ok(MessageEdit {
        content_type,
        body: request.body,
        mentions: mentions.transpose()?,
        expected_edits: expected.map_err(|_| Error::invalid("expected_edits", "must not be below 0"))?,
    })
}

pub(super) fn recall_to_wire(
    changed: ChangedMessage,
    conversation: ConversationId,
    principal: Principal,
) -> wire::RecallMessageResponse {
    let ChangedMessage { message, event_seq, replayed } = changed;
    let message = Some(message_to_wire(message, conversation.to_string(), principal));
    wire::RecallMessageResponse { message, event_seq, replayed }
}

pub(super) fn edit_to_wire(
    changed: ChangedMessage,
    conversation: ConversationId,
    principal: Principal,
) -> wire::EditMessageResponse {
    let ChangedMessage { message, event_seq, replayed } = changed;
    let message = Some(message_to_wire(message, conversation.to_string(), principal));
    wire::EditMessageResponse { message, event_seq, replayed }
}
