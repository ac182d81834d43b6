//! Recalls and edits: a message's content is removed or replaced, with an event.
//!
//! The change and its event are one store transaction. A change is no step in its conversation's queue: the
//! store retries while appends come in between, and changes are rare.

mod convert;
mod held;
mod rights;
mod rpc;
#[cfg(test)]
mod tests;

use kith_proto::message::v1::{MessageEdited, MessageRecalled, event::What};
use kith_store::{
    ContentChange, ContentHash, ConversationId, Message, MessageChange, MessageChangeOutcome, MessageKey,
    NewContent, NewMessage, Recalled, RecalledBy, Seq, Text, Timestamp, UserId,
};
use prost::bytes::Bytes;
use tokio::time::Instant;

use super::{Messages, event::event_message};
use crate::error::{Error, Reason};

/// A message to be changed, and the user who changes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangeTarget {
    pub(super) conversation: ConversationId,
    pub(super) seq: Seq,
    /// `None`: a service as itself.
    pub(super) by: Option<UserId>,
}

/// An edit's new content.
#[derive(Clone, Debug)]
struct MessageEdit {
    content_type: Text,
    body: Bytes,
    /// The mentioned users, and whether all readers are; `None`: unchanged.
    mentions: Option<(Vec<UserId>, bool)>,
    /// How many earlier edits are required; `None`: any.
    expected_edits: Option<u32>,
}

/// A changed message.
#[derive(Clone, Debug)]
struct ChangedMessage {
    message: Message,
    /// The event's number; 0: there is none.
    event_seq: Seq,
    /// Whether it was changed by an earlier call.
    replayed: bool,
}

impl Messages {
    /// Removes a message's content.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION, OUT_OF_RANGE, INVALID_ARGUMENT, or errors of the
    /// store.
    async fn recall(&self, target: ChangeTarget, deadline: Instant) -> Result<ChangedMessage, Error> {
        let this = self.clone();
        let work = async move {
            let message = this.get_changeable(target).await?;
            this.may_recall(target, &message).await?;
            recalled(this.change(target.conversation, recall(target, Timestamp::now())).await?)
        };
        self.mutations.call(deadline, Box::pin(work)).await
    }

    /// Replaces a message's content.
    ///
    /// # Errors
    /// The errors of [`Self::recall`] and of a send; ABORTED if it was edited meanwhile.
    async fn edit(
        &self,
        target: ChangeTarget,
        edit: MessageEdit,
        deadline: Instant,
    ) -> Result<ChangedMessage, Error> {
        let this = self.clone();
        let work = async move {
            let message = this.get_changeable(target).await?;
            this.may_edit(target, &message).await?;
            let edit = edit.of(&message, Timestamp::now());
            edited(this.change(target.conversation, edit).await?)
        };
        self.mutations.call(deadline, Box::pin(work)).await
    }
}

fn recall(target: ChangeTarget, now: Timestamp) -> MessageChange {
    let by = target.by.map_or(RecalledBy::Service, RecalledBy::User);
    let user_id = target.by.map_or(0, UserId::get);
    let what = What::Recalled(MessageRecalled { seq: target.seq, user_id });
    MessageChange {
        seq: target.seq,
        content: ContentChange::Recall(Recalled { by, time: now }),
        // All recalls for a message are equal.
        event: event(what, MessageKey::of_recall(target.seq), ContentHash::of("", b""), now),
    }
}

impl MessageEdit {
    /// A message's edit, from its read state.
    fn of(self, message: &Message, now: Timestamp) -> MessageChange {
        let edits_before = self.edits_before(message);
        let current = || (message.mentions.clone(), message.mention_all);
        let (mentions, mention_all) = self.mentions.unwrap_or_else(current);
        let content = NewContent {
            content_type: self.content_type,
            body: self.body,
            mentions,
            mention_all,
            edits_before,
            time: now,
        };
        let what = What::Edited(MessageEdited { seq: message.seq });
        let event = event(what, MessageKey::of_edit(message.seq, edits_before), hash_of(&content), now);
        MessageChange { seq: message.seq, content: ContentChange::Edit(content), event }
    }

    /// How many earlier edits are required. An edit to the last edit's content repeats it.
    fn edits_before(&self, message: &Message) -> u32 {
        let edits = message.edited.map_or(0, |edited| edited.count);
        let is_again = edits > 0 && self.is_content_of(message);
        self.expected_edits.unwrap_or(if is_again { edits - 1 } else { edits })
    }

    fn is_content_of(&self, message: &Message) -> bool {
        let mentions = self.mentions.as_ref();
        self.content_type == message.content_type
            && self.body == message.body
            && mentions.is_none_or(|(users, all)| *users == message.mentions && *all == message.mention_all)
    }
}

/// An edit's hash: over the content and its mentions. Two edits from the same state have different hashes.
fn hash_of(content: &NewContent) -> ContentHash {
    let mut bytes = Vec::with_capacity(content.body.len() + 16);
    bytes.push(u8::from(content.mention_all));
    bytes.extend((content.mentions.len() as u64).to_le_bytes());
    bytes.extend(content.mentions.iter().flat_map(|user| user.get().to_le_bytes()));
    bytes.extend_from_slice(&content.body);
    ContentHash::of(&content.content_type, &bytes)
}

/// A change's event. Its hash covers what the change does, so two changes with one key differ.
fn event(what: What, key: MessageKey, hash: ContentHash, now: Timestamp) -> NewMessage {
    NewMessage { hash, ..event_message(key, what, now) }
}

fn recalled(changed: MessageChangeOutcome) -> Result<ChangedMessage, Error> {
    match changed {
        MessageChangeOutcome::Done { message, event_seq, replayed, .. } => {
            Ok(ChangedMessage { message, event_seq, replayed })
        }
        // All its sender's messages were erased in between, which has its own event.
        MessageChangeOutcome::Refused(message) if message.recalled.is_some() => {
            Ok(ChangedMessage { message, event_seq: 0, replayed: true })
        }
        MessageChangeOutcome::Refused(_) => Err(Error::internal()),
        MessageChangeOutcome::Missing => Err(no_message()),
    }
}

fn edited(changed: MessageChangeOutcome) -> Result<ChangedMessage, Error> {
    match changed {
        MessageChangeOutcome::Done { message, event_seq, replayed, .. } => {
            Ok(ChangedMessage { message, event_seq, replayed })
        }
        MessageChangeOutcome::Refused(message) if message.recalled.is_some() => Err(was_recalled()),
        MessageChangeOutcome::Refused(message) => {
            let edits = message.edited.map_or(0, |edited| edited.count);
            let text = format!("the message was edited {edits} times");
            Err(Error::new(Reason::VersionConflict, text).at("expected_edits"))
        }
        MessageChangeOutcome::Missing => Err(no_message()),
    }
}

pub(super) fn no_message() -> Error {
    Error::not_found("message")
}

pub(super) fn was_recalled() -> Error {
    Error::new(Reason::StateForbids, "the message was recalled")
}
