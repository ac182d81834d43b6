//! Messages between the wire and the domain. Raw numbers and strings do not pass this module.

use kith_proto::message::v1::{
    self as wire, max_seq_result::Result as MaxAnswer, send_message_request::To,
    send_result::Result as SendAnswer,
};
use kith_store::{
    ContentHash, ConversationId, MENTIONS_MAX, Message, MessageKey, MessageKind, NewMessage, Recalled,
    RecalledBy, Seq, Text, Timestamp, UserId,
};
use prost::{Message as _, bytes::Bytes};

use super::{
    range::is_withheld,
    reaction::ReactionCounts,
    reading::{BackwardRead, ForwardRead, SEQS_MAX},
    sending::{MessageDraft, SendOutcome},
};
use crate::{
    error::{Error, valid},
    rpc::{
        batch::{check_count, missing},
        call::{Principal, own},
        ids,
        versions::{moment, wire_time},
    },
};

/// The reader who gets an answer, which decides which client ids are shown.
pub(crate) fn message_to_wire(
    message: Message,
    conversation_id: String,
    principal: Principal,
) -> wire::Message {
    let shows_id = match principal {
        Principal::Service => true,
        Principal::User(user) => message.sender == Some(user),
    };
    let withheld = is_withheld(&message);
    let client_message_id = message.client_message_id.filter(|_| shows_id);
    let (body, event) = match message.kind {
        MessageKind::Message => (message.body, None),
        // An event from a later version, which this version cannot decode, is shown without content.
        MessageKind::Event => (Bytes::new(), wire::Event::decode(message.body).ok()),
    };
    wire::Message {
        conversation_id,
        seq: message.seq,
        sender_id: message.sender.map_or(0, UserId::get),
        send_time: Some(wire_time(message.sent)),
        kind: kind_to_wire(message.kind).into(),
        content_type: message.content_type.to_string(),
        body,
        mention_ids: message.mentions.into_iter().map(UserId::get).collect(),
        mention_all: message.mention_all,
        reply_to_seq: message.reply_to.unwrap_or_default(),
        silent: message.silent,
        edit_time: message.edited.map(|edited| wire_time(edited.last)),
        edits: message.edited.map_or(0, |edited| i32::try_from(edited.count).unwrap_or(i32::MAX)),
        recall: message.recalled.map(recall_to_wire),
        event,
        client_message_id: client_message_id.map(|id| id.to_string()).unwrap_or_default(),
        withheld,
        reactions: Vec::new(),
    }
}

fn recall_to_wire(recalled: Recalled) -> wire::Recall {
    let user_id = match recalled.by {
        RecalledBy::User(user) => user.get(),
        RecalledBy::Service | RecalledBy::Erasure => 0,
    };
    wire::Recall { user_id, time: Some(wire_time(recalled.time)) }
}

const fn kind_to_wire(kind: MessageKind) -> wire::MessageKind {
    match kind {
        MessageKind::Message => wire::MessageKind::Message,
        MessageKind::Event => wire::MessageKind::Event,
    }
}

/// A page's messages with these counts.
pub(super) fn page_to_wire(
    messages: Vec<Message>,
    conversation: ConversationId,
    principal: Principal,
    counts: &ReactionCounts,
) -> Vec<wire::Message> {
    let id = conversation.to_string();
    let to_wire = |message| {
        let mut message = message_to_wire(message, id.clone(), principal);
        counts.add_to(conversation, &mut message);
        message
    };
    messages.into_iter().map(to_wire).collect()
}

/// The message that a request sends.
pub(super) fn draft(
    request: wire::SendMessageRequest,
    principal: Principal,
    body_bytes_max: usize,
) -> Result<MessageDraft, Error> {
    let sender = sender(request.sender_id, principal)?;
    let keeps_unread = request.keep_unread;
    let conversation = target(request.to.as_ref(), sender)?;
    let client_message_id = client_message_id(&request.client_message_id)?;
    let content_type = valid("content_type", NewMessage::content_type(&request.content_type))?;
    check_content(&request.content_type, &request.body, body_bytes_max)?;
    let message = NewMessage {
        key: key(sender, client_message_id.as_ref()),
        hash: ContentHash::of(&content_type, &request.body),
        sender,
        sent: Timestamp::now(),
        kind: MessageKind::Message,
        content_type,
        body: request.body,
        mentions: mentions("mention_ids", &request.mention_ids)?,
        mention_all: request.mention_all,
        silent: request.silent,
        reply_to: Some(number("reply_to_seq", request.reply_to_seq)?).filter(|seq| *seq > 0),
        client_message_id,
    };
    Ok(MessageDraft { conversation, message, keeps_unread })
}

/// The sender: the named user, or else the acting user; `None`: a service as itself.
fn sender(named: i64, principal: Principal) -> Result<Option<UserId>, Error> {
    if named == 0 {
        return Ok(principal.user());
    }
    let sender = ids::user("sender_id", named)?;
    match principal {
        Principal::User(user) if user != sender => Err(Error::not_allowed("users send for themselves")),
        Principal::User(_) | Principal::Service => Ok(Some(sender)),
    }
}

/// The user who reads or changes: the named user, or else the acting user; `None`: a service as itself.
pub(super) fn acting_user(named: i64, principal: Principal) -> Result<Option<UserId>, Error> {
    if named == 0 {
        return Ok(principal.user());
    }
    let user = ids::user("user_id", named)?;
    own(user, principal)?;
    Ok(Some(user))
}

fn target(to: Option<&To>, sender: Option<UserId>) -> Result<ConversationId, Error> {
    match to {
        Some(To::ConversationId(text)) => conversation(text),
        Some(To::UserId(id)) => {
            let other = ids::user("user_id", *id)?;
            let sender =
                sender.ok_or_else(|| Error::invalid("user_id", "must not be given without a sender"))?;
            Ok(ConversationId::direct(sender, other))
        }
        Some(To::GroupId(id)) => Ok(ConversationId::Group(ids::group(*id)?)),
        None => Err(Error::invalid("to", "must be given, as conversation_id, user_id or group_id")),
    }
}

pub(crate) fn conversation(text: &str) -> Result<ConversationId, Error> {
    valid("conversation_id", text.parse())
}

/// The conversation ids, in their order.
pub(super) fn conversations(texts: &[String], max: usize) -> Result<Vec<ConversationId>, Error> {
    check_count("conversation_ids", texts.len(), max)?;
    valid("conversation_ids", texts.iter().map(|text| text.parse()).collect())
}

pub(super) fn client_message_id(text: &str) -> Result<Option<Text>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    valid("client_message_id", NewMessage::client_message_id(text)).map(Some)
}

/// Random if the caller gave no id: the message is never a replay then.
fn key(sender: Option<UserId>, client_message_id: Option<&Text>) -> MessageKey {
    match client_message_id {
        Some(id) => MessageKey::of(sender, id),
        None => MessageKey(rand::random()),
    }
}

/// Checks a content whose type is checked already.
pub(super) fn check_content(content_type: &str, body: &[u8], bytes_max: usize) -> Result<(), Error> {
    if body.len() > bytes_max {
        return Err(Error::invalid("body", &format!("must have at most {bytes_max} bytes")));
    }
    if body.is_empty() && content_type.is_empty() {
        return Err(Error::invalid("body", "must not be empty without a content_type"));
    }
    Ok(())
}

/// The users whom a message mentions, by a field of this name.
pub(super) fn mentions(field: &'static str, ids: &[i64]) -> Result<Vec<UserId>, Error> {
    if ids.len() > MENTIONS_MAX {
        return Err(Error::invalid(field, &format!("must hold at most {MENTIONS_MAX}")));
    }
    ids::users(field, ids)
}

pub(super) fn pull(request: &wire::PullMessagesRequest, limit: usize) -> Result<ForwardRead, Error> {
    let pull = ForwardRead {
        conversation: conversation(&request.conversation_id)?,
        from: number("from_seq", request.from_seq)?,
        to: number("to_seq", request.to_seq)?,
        limit,
        at_least: number("at_least_seq", request.at_least_seq)?,
    };
    if pull.to != 0 && pull.to < pull.from {
        return Err(Error::invalid("to_seq", "must not be below from_seq"));
    }
    Ok(pull)
}

pub(super) fn back(request: &wire::HistoryRequest, limit: usize) -> Result<BackwardRead, Error> {
    Ok(BackwardRead {
        conversation: conversation(&request.conversation_id)?,
        before: number("before_seq", request.before_seq)?,
        limit,
        at_least: number("at_least_seq", request.at_least_seq)?,
    })
}

/// The requested message numbers.
pub(super) fn seqs(seqs: Vec<i64>) -> Result<Vec<Seq>, Error> {
    if seqs.len() > SEQS_MAX {
        return Err(Error::invalid("seqs", &format!("must hold at most {SEQS_MAX}")));
    }
    if seqs.iter().any(|seq| *seq <= 0) {
        return Err(Error::invalid("seqs", "must be above 0"));
    }
    Ok(seqs)
}

pub(super) fn time(time: Option<&prost_types::Timestamp>) -> Result<Timestamp, Error> {
    moment("time", time.ok_or_else(|| missing("time"))?)
}

/// A message number; 0: none.
pub(crate) fn number(field: &'static str, number: i64) -> Result<Seq, Error> {
    if number < 0 { Err(Error::invalid(field, "must not be below 0")) } else { Ok(number) }
}

pub(super) fn sent_to_wire(sent: SendOutcome) -> wire::SendMessageResponse {
    wire::SendMessageResponse {
        conversation_id: sent.conversation.to_string(),
        seq: sent.seq,
        send_time: Some(wire_time(sent.time)),
        replayed: sent.replayed,
    }
}

pub(super) fn send_result(sent: Result<SendOutcome, Error>) -> wire::SendResult {
    let result = match sent {
        Ok(sent) => SendAnswer::Sent(sent_to_wire(sent)),
        Err(error) => SendAnswer::Error(error.to_result()),
    };
    wire::SendResult { result: Some(result) }
}

pub(super) fn max_seq_result(conversation: ConversationId, max: Result<Seq, Error>) -> wire::MaxSeqResult {
    let result = match max {
        Ok(max) => MaxAnswer::MaxSeq(max),
        Err(error) => MaxAnswer::Error(error.to_result()),
    };
    wire::MaxSeqResult { conversation_id: conversation.to_string(), result: Some(result) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::user;

    fn request() -> wire::SendMessageRequest {
        wire::SendMessageRequest {
            to: Some(To::UserId(8)),
            content_type: "text/plain".to_owned(),
            body: "hi".into(),
            ..Default::default()
        }
    }

    fn drafted(request: wire::SendMessageRequest) -> MessageDraft {
        draft(request, Principal::User(user(7)), 100).unwrap()
    }

    #[test]
    fn messages_without_id_have_keys_of_their_own() {
        assert_ne!(drafted(request()).message.key, drafted(request()).message.key);
        let named = || wire::SendMessageRequest { client_message_id: "a".to_owned(), ..request() };
        assert_eq!(drafted(named()).message.key, drafted(named()).message.key);
    }
}
