//! Imports: messages with the numbers, senders and times that they had elsewhere. No user is notified about
//! them by a push.

use kith_proto::{message::v1 as wire, r#type::v1::ImportResult};
use kith_store::{
    BODY_BYTES_MAX, ContentHash, ConversationId, MessageKey, MessageKind, NewMessage, RequestId, Seq, UserId,
};
use prost::{Message as _, bytes::Bytes};

use super::{
    Messages, convert,
    sending::{MessageDraft, SendOutcome},
    waiting::{STEP_MAX, SentWhen},
};
use crate::{
    error::{Error, Reason, valid},
    rpc::{
        batch::{Limits, import_result, missing},
        ids,
        versions::past_moment,
    },
};

/// A message that is to be appended.
#[derive(Debug)]
struct ImportedMessage {
    conversation: ConversationId,
    /// The message's number; 0: the next number.
    seq: Seq,
    message: NewMessage,
    keeps_unread: bool,
}

/// The log's end after the previous records.
struct ImportLog {
    conversation: ConversationId,
    end: Result<Seq, Error>,
}

/// Imports these records: first the messages, then the marks and the reactions. Returns each result, in the
/// same order.
pub(super) async fn import(
    messages: Messages,
    limits: Limits,
    records: Vec<wire::ImportMessage>,
) -> Vec<ImportResult> {
    let numbers: Vec<i64> = records.iter().map(|record| record.record).collect();
    let (reactions, others): (Vec<_>, Vec<_>) =
        records.into_iter().enumerate().partition(|(_, record)| record.reaction.is_some());
    let (marks, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|(_, record)| record.mark.is_some());
    let (at_reactions, reactions): (Vec<usize>, Vec<_>) = reactions.into_iter().unzip();
    let (at_marks, marks): (Vec<usize>, Vec<_>) = marks.into_iter().unzip();
    let (at_messages, others): (Vec<usize>, Vec<_>) = others.into_iter().unzip();
    let appended = append_all(&messages, &limits, others).await;
    let marked = messages.import_marks(&limits, marks).await;
    let reacted = messages.import_reactions(&limits, reactions).await;
    let mut results: Vec<_> = at_messages.into_iter().zip(appended).collect();
    results.extend(at_marks.into_iter().zip(marked));
    results.extend(at_reactions.into_iter().zip(reacted));
    results.sort_unstable_by_key(|(at, _)| *at);
    let results = results.into_iter().map(|(_, result)| result);
    numbers.into_iter().zip(results).map(|(record, result)| import_result(record, result)).collect()
}

/// Appends these records' messages one after the other. Returns each one's number, in the same order.
async fn append_all(
    messages: &Messages,
    limits: &Limits,
    records: Vec<wire::ImportMessage>,
) -> Vec<Result<Seq, Error>> {
    let mut records: Vec<_> = records.into_iter().map(read).collect();
    let mut results = Vec::with_capacity(records.len());
    while !records.is_empty() {
        let step: Vec<_> = records.drain(..step_of(&records)).collect();
        let (this, count) = (messages.clone(), step.len());
        let work = async move { Ok(this.import_step(step).await) };
        let appended = messages.mutations.call(limits.import_deadline(), Box::pin(work)).await;
        results.extend(appended.unwrap_or_else(|error: Error| vec![Err(error); count]));
    }
    results
}

/// How many records the next step has: the first records, in one conversation.
fn step_of(records: &[Result<ImportedMessage, Error>]) -> usize {
    let of =
        |record: &Result<ImportedMessage, Error>| record.as_ref().ok().map(|imported| imported.conversation);
    let first = records.iter().find_map(of);
    let same =
        records.iter().take(STEP_MAX).take_while(|record| of(record).is_none_or(|id| Some(id) == first));
    same.count().max(1)
}

impl Messages {
    /// Appends messages to one conversation, at most [`STEP_MAX`]. A record that is an error already keeps
    /// it.
    async fn import_step(&self, records: Vec<Result<ImportedMessage, Error>>) -> Vec<Result<Seq, Error>> {
        let conversation = records.iter().flatten().map(|imported| imported.conversation).next();
        let mut log = match conversation {
            Some(conversation) => ImportLog { conversation, end: self.end_of_existing(conversation).await },
            None => return records.into_iter().map(|record| record.and(Err(Error::internal()))).collect(),
        };
        let conversation = log.conversation;
        let mut results: Vec<Result<Seq, Error>> = Vec::with_capacity(records.len());
        let (mut indices, mut drafts) = (Vec::new(), Vec::new());
        for record in records {
            let due = record.and_then(|imported| log.next(imported.seq).map(|seq| (seq, imported)));
            if let Ok((seq, imported)) = &due {
                indices.push((results.len(), (imported.seq > 0).then_some(*seq)));
            }
            // Replaced below, unless it is an error.
            results.push(due.as_ref().map(|(seq, _)| *seq).map_err(Clone::clone));
            drafts.extend(due.map(|(_, ImportedMessage { message, keeps_unread, .. })| MessageDraft {
                conversation,
                message,
                keeps_unread,
            }));
        }
        let appended = if drafts.is_empty() {
            Ok(Vec::new())
        } else {
            self.append(conversation, drafts, SentWhen::Before).await
        };
        for (at, (index, wanted)) in indices.into_iter().enumerate() {
            results[index] = match &appended {
                Ok(sent) => sent.get(at).cloned().unwrap_or_else(|| Err(Error::internal())),
                Err(error) => Err(error.clone()),
            }
            .and_then(|sent| check_seq(wanted, sent));
        }
        results
    }

    /// The end of a conversation's log, also right after a failover.
    async fn end_of_existing(&self, conversation: ConversationId) -> Result<Seq, Error> {
        self.may_send(None, conversation).await?;
        self.logs.strong_end(conversation).await
    }
}

impl ImportLog {
    /// The next message's number, if it equals `wanted` or any number is accepted.
    fn next(&mut self, wanted: Seq) -> Result<Seq, Error> {
        let next = self.end.clone()?.saturating_add(1);
        if 0 < wanted && wanted < next {
            return Err(Error::new(Reason::IdTaken, "there is a message with this number").at("message.seq"));
        }
        if next < wanted {
            let why = format!("the next message of {} is number {next}, not {wanted}", self.conversation);
            return Err(Error::new(Reason::VersionConflict, why).at("message.seq"));
        }
        self.end = Ok(next);
        Ok(next)
    }
}

/// An appended message's number, which is the wanted number.
fn check_seq(wanted: Option<Seq>, sent: SendOutcome) -> Result<Seq, Error> {
    match wanted {
        Some(wanted) if wanted != sent.seq => {
            let why = format!(
                "is number {} now: something else sent to the conversation, or its id is used twice",
                sent.seq
            );
            Err(Error::new(Reason::StateForbids, why).at("message.seq"))
        }
        _ => Ok(sent.seq),
    }
}

/// A record's message.
fn read(record: wire::ImportMessage) -> Result<ImportedMessage, Error> {
    let message = record.message.ok_or_else(|| missing("message"))?;
    let key = key_of_request(&record.request_id)?;
    let imported = imported(&message, key).map_err(|error| error.within("message"))?;
    Ok(ImportedMessage { keeps_unread: record.keep_unread, ..imported })
}

/// `key`: for a message without a number and an id.
fn imported(message: &wire::Message, key: MessageKey) -> Result<ImportedMessage, Error> {
    let conversation = convert::conversation(&message.conversation_id)?;
    let sender = sender(message.sender_id, conversation)?;
    let seq = convert::number("seq", message.seq)?;
    let client_message_id = convert::client_message_id(&message.client_message_id)?;
    let content_type = valid("content_type", NewMessage::content_type(&message.content_type))?;
    let sent = past_moment("send_time", &message.send_time.ok_or_else(|| missing("send_time"))?)?;
    let key = match (&client_message_id, seq) {
        (Some(id), _) => MessageKey::of(sender, id),
        (None, 0) => key,
        (None, _) => MessageKey(rand::random()),
    };
    let (kind, body) = content(message)?;
    let new = NewMessage {
        key,
        hash: ContentHash::of(&content_type, &body),
        sender,
        sent,
        kind,
        content_type,
        body,
        mentions: convert::mentions("mention_ids", &message.mention_ids)?,
        mention_all: message.mention_all,
        silent: message.silent,
        reply_to: Some(convert::number("reply_to_seq", message.reply_to_seq)?).filter(|seq| *seq > 0),
        client_message_id,
    };
    Ok(ImportedMessage { conversation, seq, message: new, keeps_unread: false })
}

/// The sender; `None`: a service.
fn sender(id: i64, conversation: ConversationId) -> Result<Option<UserId>, Error> {
    if id == 0 {
        return Ok(None);
    }
    let sender = ids::user("sender_id", id)?;
    match conversation {
        ConversationId::Direct(one, other) if sender != one && sender != other => {
            Err(Error::invalid("sender_id", "must be one of the two users"))
        }
        _ => Ok(Some(sender)),
    }
}

/// A key that follows from a record's id; random if it has none. No client id has a colon.
fn key_of_request(request_id: &str) -> Result<MessageKey, Error> {
    if request_id.is_empty() {
        return Ok(MessageKey(rand::random()));
    }
    let id: RequestId = valid("request_id", request_id.parse())?;
    Ok(MessageKey::of(None, &format!("import:{}", id.as_str())))
}

/// A message's body, or an event's content.
fn content(message: &wire::Message) -> Result<(MessageKind, Bytes), Error> {
    if message.body.len() > BODY_BYTES_MAX {
        return Err(Error::invalid("body", &format!("must have at most {BODY_BYTES_MAX} bytes")));
    }
    match (message.kind(), &message.event) {
        (wire::MessageKind::Message, None) => Ok((MessageKind::Message, message.body.clone())),
        (wire::MessageKind::Message, Some(_)) => {
            Err(Error::invalid("event", "must not be given with a message"))
        }
        (wire::MessageKind::Event, event) if message.body.is_empty() => {
            let event = event.as_ref().map(wire::Event::encode_to_vec).unwrap_or_default();
            Ok((MessageKind::Event, event.into()))
        }
        (wire::MessageKind::Event, _) => Err(Error::invalid("body", "must not be given with an event")),
        (wire::MessageKind::Unspecified, _) => {
            Err(Error::invalid("kind", "must be that of a message or an event"))
        }
    }
}
