//! Sends: rights, and stored messages' numbers.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures::future::join_all;
use kith_store::{Appended, ConversationId, NewMessage, Seq, Timestamp, UserId};
use tokio::time::Instant;

use super::{
    Messages,
    range::store_error,
    waiting::{AppendResult, SentWhen},
};
use crate::{
    error::{Error, Reason},
    metric::{self, MESSAGES_REPLAYED, MESSAGES_SENT},
};

/// A message to be sent.
#[derive(Clone, Debug)]
pub(super) struct MessageDraft {
    pub(super) conversation: ConversationId,
    pub(super) message: NewMessage,
    /// Whether the messages before it stay unread for the sender.
    pub(super) keeps_unread: bool,
}

/// A message that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendOutcome {
    pub(super) conversation: ConversationId,
    pub(super) seq: Seq,
    pub(super) time: Timestamp,
    /// Whether it was stored by an earlier send.
    pub(super) replayed: bool,
}

impl Messages {
    /// Stores a message. When this returns, it is durable.
    ///
    /// # Errors
    /// NOT_FOUND, FAILED_PRECONDITION, PERMISSION_DENIED, INVALID_ARGUMENT for an id with another content,
    /// RESOURCE_EXHAUSTED, or errors of the store.
    pub(super) async fn send(&self, draft: MessageDraft, deadline: Instant) -> Result<SendOutcome, Error> {
        let this = self.clone();
        let work = async move {
            this.may_send(draft.message.sender, draft.conversation).await?;
            let draft = this.of_account(draft).await?;
            let mut sent = this.append(draft.conversation, vec![draft], SentWhen::Now).await?;
            sent.pop().unwrap_or_else(|| Err(Error::internal()))
        };
        self.mutations.call(deadline, Box::pin(work)).await
    }

    /// Stores many messages, a conversation's messages in their order. Returns a result for each draft, in
    /// their order; a draft that is an error already keeps it.
    ///
    /// # Errors
    /// UNAVAILABLE with unknown outcome if it takes too long.
    pub(super) async fn send_batch(
        &self,
        drafts: Vec<Result<MessageDraft, Error>>,
        deadline: Instant,
    ) -> Result<Vec<Result<SendOutcome, Error>>, Error> {
        let this = self.clone();
        let work = async move { Ok(this.send_all(without_repeated_ids(drafts)).await) };
        self.mutations.call(deadline, Box::pin(work)).await
    }

    async fn send_all(&self, drafts: Vec<Result<MessageDraft, Error>>) -> Vec<Result<SendOutcome, Error>> {
        let rights = self.rights_of(&drafts).await;
        let mut results: Vec<Result<SendOutcome, Error>> = Vec::with_capacity(drafts.len());
        let mut allowed: BTreeMap<ConversationId, Vec<(usize, MessageDraft)>> = BTreeMap::new();
        for (at, draft) in drafts.into_iter().enumerate() {
            let right = draft.and_then(|draft| {
                let right = rights.get(&right_of(&draft)).cloned();
                right.unwrap_or_else(|| Err(Error::internal())).map(|()| draft)
            });
            let right = match right {
                Ok(draft) => self.of_account(draft).await,
                Err(error) => Err(error),
            };
            // Replaced below.
            results.push(right.as_ref().map_or_else(|error| Err(error.clone()), |_| Err(Error::internal())));
            if let Ok(draft) = right {
                allowed.entry(draft.conversation).or_default().push((at, draft));
            }
        }
        let sends = allowed.into_iter().map(async |(conversation, drafts)| {
            let (indices, drafts): (Vec<usize>, Vec<MessageDraft>) = drafts.into_iter().unzip();
            let sent = self.append(conversation, drafts, SentWhen::Now).await;
            indices.into_iter().enumerate().map(|(at, index)| (index, one_of(&sent, at))).collect::<Vec<_>>()
        });
        for (index, sent) in join_all(sends).await.into_iter().flatten() {
            results[index] = sent;
        }
        results
    }

    /// The draft with a key for its sender's present account: an id that an earlier account chose is not
    /// taken for it.
    async fn of_account(&self, mut draft: MessageDraft) -> Result<MessageDraft, Error> {
        if let (Some(sender), Some(_)) = (draft.message.sender, &draft.message.client_message_id) {
            let account = self.dependencies.users.accesses().account(sender).await?;
            draft.message.key = draft.message.key.of_account(account);
        }
        Ok(draft)
    }

    /// Whether each draft's sender may send to its conversation.
    async fn rights_of(&self, drafts: &[Result<MessageDraft, Error>]) -> HashMap<Right, Result<(), Error>> {
        let rights: HashSet<Right> = drafts.iter().flatten().map(right_of).collect();
        let checks = rights.into_iter().map(async |right| (right, self.may_send(right.0, right.1).await));
        join_all(checks).await.into_iter().collect()
    }

    /// Appends messages to one conversation in their order, once their senders have dialogs. Returns a result
    /// for each, in the same order.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED, or errors of the store; none is appended then.
    pub(super) async fn append(
        &self,
        conversation: ConversationId,
        drafts: Vec<MessageDraft>,
        when: SentWhen,
    ) -> Result<Vec<Result<SendOutcome, Error>>, Error> {
        self.dialogs
            .create_missing(conversation, drafts.iter().filter_map(|draft| draft.message.sender))
            .await?;
        let markers: Vec<Option<UserId>> = drafts.iter().map(MessageDraft::marker).collect();
        let messages = drafts.into_iter().map(|draft| draft.message).collect();
        let (times, answers) = self.queue.enqueue(conversation, messages, when)?;
        let sent: Vec<Result<SendOutcome, Error>> = answers
            .await
            .into_iter()
            .zip(times)
            .map(|(answer, time)| sent(conversation, answer, time))
            .collect();
        self.mark_own(conversation, markers.into_iter().zip(&sent), when == SentWhen::Before);
        Ok(sent)
    }
}

/// The send metrics, from zero on.
pub(super) fn count_from_zero() {
    metric::count_from_zero(MESSAGES_SENT, &["direct", "group"]);
    metric::count_from_zero(MESSAGES_REPLAYED, &[]);
}

/// A sender and a conversation: whether it may send there is decided once for all messages in a batch.
type Right = (Option<UserId>, ConversationId);

const fn right_of(draft: &MessageDraft) -> Right {
    (draft.message.sender, draft.conversation)
}

/// Refuses each draft whose key an earlier draft in the same conversation has.
fn without_repeated_ids(drafts: Vec<Result<MessageDraft, Error>>) -> Vec<Result<MessageDraft, Error>> {
    let mut keys = HashSet::new();
    let mut is_new = |draft: &MessageDraft| keys.insert((draft.conversation, draft.message.key));
    let mut once = |draft: MessageDraft| if is_new(&draft) { Ok(draft) } else { Err(repeated_id()) };
    drafts.into_iter().map(|draft| draft.and_then(&mut once)).collect()
}

fn repeated_id() -> Error {
    Error::invalid("client_message_id", "is that of an earlier message of the batch")
}

/// One message's result, of several that were appended together.
fn one_of(sent: &Result<Vec<Result<SendOutcome, Error>>, Error>, at: usize) -> Result<SendOutcome, Error> {
    match sent {
        Ok(sent) => sent.get(at).cloned().unwrap_or_else(|| Err(Error::internal())),
        Err(error) => Err(error.clone()),
    }
}

/// The result for a message that was sent at `time`.
fn sent(conversation: ConversationId, answer: AppendResult, time: Timestamp) -> Result<SendOutcome, Error> {
    match answer.map_err(store_error)? {
        Appended::New(seq) => {
            metrics::counter!(MESSAGES_SENT.name, "kind" => kind(conversation)).increment(1);
            Ok(SendOutcome { conversation, seq, time, replayed: false })
        }
        Appended::Replayed { seq, sent } => {
            metrics::counter!(MESSAGES_REPLAYED.name).increment(1);
            Ok(SendOutcome { conversation, seq, time: sent, replayed: true })
        }
        Appended::OtherContent => Err(Error::new(
            Reason::RequestIdReused,
            "client_message_id was used with another content type or body",
        )
        .at("client_message_id")),
    }
}

const fn kind(conversation: ConversationId) -> &'static str {
    match conversation {
        ConversationId::Direct(..) => "direct",
        ConversationId::Group(_) | ConversationId::Offline(_) => "group",
    }
}
