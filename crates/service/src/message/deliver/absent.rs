//! Recipients without a receiver, for a service that notifies them in another way.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use kith_store::{ConversationId, DOCUMENT, Message, Seq, SeqRange, Timestamp, UserId, document_parts};

use super::{
    super::{
        logs::LogAdditions,
        offline::{AbsentRecipients, is_announced},
    },
    Delivery, UnconfirmedRanges,
    recipients::DeliveryTargets,
};
use crate::error::Error;

/// The most messages in a conversation that are examined for a node that died.
const RESUMED_MAX: Seq = 10 * DOCUMENT;
/// A message may be older than its step's note by this time: it waits for the previous step.
const OLDER: Duration = Duration::from_secs(60);

/// The result of a fan-out for its recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FanOutOutcome {
    /// All recipients were entered; these have no receiver.
    Inboxes(Vec<UserId>),
    /// The nodes that read the conversation were woken.
    Registered,
}

/// The earliest time that a message can have in a step that began with a message sent at `sent`.
fn older(sent: Timestamp) -> Timestamp {
    let older = i64::try_from(OLDER.as_millis()).unwrap_or_default();
    Timestamp(sent.0.saturating_sub(older))
}

impl Delivery {
    /// A step's messages whose recipients may have to be notified.
    pub(super) async fn messages_to_announce(
        &self,
        conversation: ConversationId,
        added: &LogAdditions,
    ) -> Result<Vec<Message>, Error> {
        let Some(offline) = self.0.offline.as_ref().filter(|_| added.is_announced) else {
            return Ok(Vec::new());
        };
        let mut messages = added.runs.concat();
        for seq in &added.replayed {
            // The node that stored it may have died before it entered it.
            let replayed = offline.stored(conversation, SeqRange { first: *seq, last: *seq }).await?;
            messages.extend(replayed.into_iter().filter(|message| !offline.is_old(message.sent)));
        }
        Ok(messages)
    }

    /// Enters messages for their recipients without a receiver, if that is configured. `fanned`: their
    /// fan-out's result; `None`: it failed, so receivers are unknown, and all recipients are notified.
    pub(super) async fn announce(
        &self,
        conversation: ConversationId,
        messages: &[Message],
        fanned: Option<&FanOutOutcome>,
    ) -> Result<(), Error> {
        let Some(offline) = &self.0.offline else { return Ok(()) };
        if !messages.iter().any(is_announced) {
            return Ok(());
        }
        let absent = match fanned {
            Some(FanOutOutcome::Inboxes(absent)) => AbsentRecipients::All(absent.clone()),
            Some(FanOutOutcome::Registered) => self.absent_of_large_group(conversation, messages).await?,
            None => match self.0.recipients.of(conversation).await? {
                DeliveryTargets::Users(users) => AbsentRecipients::All(users.to_vec()),
                DeliveryTargets::Registered => self.absent_of_large_group(conversation, messages).await?,
            },
        };
        offline.enter(conversation, messages, &absent).await
    }

    /// Like `announce`, for the stored messages from one number to another. Messages that are much older than
    /// the first were imported, and are left out.
    pub(super) async fn announce_stored(
        &self,
        conversation: ConversationId,
        seqs: SeqRange,
        fanned: &FanOutOutcome,
    ) -> Result<(), Error> {
        let Some(offline) = &self.0.offline else { return Ok(()) };
        let mut oldest = None;
        for (first, last) in document_parts(seqs.first.max(1), seqs.last) {
            let mut messages = offline.stored(conversation, SeqRange { first, last }).await?;
            let oldest = *oldest.get_or_insert_with(|| messages.first().map(|first| older(first.sent)));
            messages.retain(|message| oldest.is_none_or(|oldest| message.sent >= oldest));
            self.announce(conversation, &messages, Some(fanned)).await?;
        }
        Ok(())
    }

    /// Like `announce`, for messages that a dead node may have left: its step was noted this long ago.
    pub(super) async fn announce_resumed(
        &self,
        conversation: ConversationId,
        end: Seq,
        noted: Duration,
        fanned: &FanOutOutcome,
    ) -> Result<(), Error> {
        let Some(offline) = &self.0.offline else { return Ok(()) };
        let first = offline.sent_within(conversation, noted + OLDER).await?.max(end - RESUMED_MAX + 1);
        self.announce_stored(conversation, SeqRange { first, last: end }, fanned).await
    }

    /// Enters messages for one user, who had a receiver when they were sent, and may not have got them: up to
    /// where the conversations end. Messages that the user may not receive any more are left out.
    pub(super) async fn announce_to(
        &self,
        user: UserId,
        unconfirmed: &UnconfirmedRanges,
    ) -> Result<(), Error> {
        let Some(offline) = &self.0.offline else { return Ok(()) };
        for (conversation, seqs) in unconfirmed.iter() {
            let absent = match self.0.recipients.of(conversation).await? {
                DeliveryTargets::Users(users) if users.contains(&user) => AbsentRecipients::All(vec![user]),
                DeliveryTargets::Users(_) => continue,
                DeliveryTargets::Registered => {
                    let members = self.0.recipients.members_among(conversation, vec![user]).await?;
                    AbsentRecipients::Mentioned(members)
                }
            };
            let end = offline.end(conversation).await?.max(seqs.last);
            let first = seqs.first.max(end - RESUMED_MAX + 1).max(1);
            for (first, last) in document_parts(first, end) {
                let mut messages = offline.stored(conversation, SeqRange { first, last }).await?;
                messages.retain(|message| !offline.is_old(message.sent));
                offline.enter_again(conversation, &messages, &absent).await?;
            }
        }
        Ok(())
    }

    /// Returns, for each mentioned user, the first and the last number among messages that are this old and
    /// mention it.
    pub(super) async fn mentions(
        &self,
        conversation: ConversationId,
        age: Duration,
    ) -> Result<HashMap<UserId, SeqRange>, Error> {
        let mut mentions = HashMap::new();
        let Some(offline) = &self.0.offline else { return Ok(mentions) };
        let end = offline.end(conversation).await?;
        let first = offline.sent_within(conversation, age).await?.max(end - RESUMED_MAX + 1).max(1);
        for (first, last) in document_parts(first, end) {
            for message in offline.stored(conversation, SeqRange { first, last }).await? {
                for user in &message.mentions {
                    let seqs: &mut SeqRange =
                        mentions.entry(*user).or_insert(SeqRange { first: message.seq, last: message.seq });
                    seqs.last = message.seq;
                }
            }
        }
        Ok(mentions)
    }

    /// Large group members whom messages mention and who have no receiver. A member with unknown receivers
    /// counts as one without.
    async fn absent_of_large_group(
        &self,
        conversation: ConversationId,
        messages: &[Message],
    ) -> Result<AbsentRecipients, Error> {
        let mentioned: BTreeSet<UserId> =
            messages.iter().flat_map(|message| &message.mentions).copied().collect();
        let members = self.0.recipients.members_among(conversation, mentioned.into_iter().collect()).await?;
        let receiving = self.0.inboxes.keeper.receiving(&members).await.unwrap_or_default();
        let absent = members.into_iter().filter(|user| !receiving.contains_key(user));
        Ok(AbsentRecipients::Mentioned(absent.collect()))
    }
}
