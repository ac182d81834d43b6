//! Delivers appended messages: enters them into their recipients' inboxes, and wakes the nodes on which these
//! receive.
//!
//! A fan-out may be repeated, late or lost: an inbox's ranges are contiguous, so the next fan-out repairs it.
//! A failed fan-out is retried until it succeeds (`pending.rs`), and neither fails nor delays a send beyond
//! [`FAN_OUT_WAIT`] (`step.rs`). If its node dies first, another node finds the step's note (`notes.rs`) and
//! resumes it (`resumption.rs`).
//!
//! Recipients without a receiver are entered for a service that notifies them, if that is configured
//! (`absent.rs`).

mod abandoned;
mod absent;
mod gathered_notes;
mod notes;
mod pending;
mod recipients;
mod resumption;
mod retries;
mod step;
#[cfg(test)]
pub(super) mod tests;
mod unconfirmed;

use std::{sync::Arc, time::Duration};

use futures::future::{join_all, ready};
use kith_delivery::{FanOutResult, InboxLimits, NodeWake, SentMessages, Wake, entry};
use kith_store::{ConversationId, GroupId, Message, NodeName, Seq, SeqRange, Timestamp, UserId};
use prost::bytes::Bytes;

pub(super) use self::{
    abandoned::{ABANDONED_AFTER, LargeGroups},
    step::StepDelivery,
    unconfirmed::UnconfirmedRanges,
};
use self::{
    absent::FanOutOutcome,
    notes::NotedSteps,
    pending::{PendingDeliveries, UndeliveredMessages},
    recipients::DeliveryTargets,
};
pub use self::{
    notes::StepNotes, recipients::Recipients, resumption::resumption_job, retries::FanOutRetries,
};
use super::{Inboxes, offline::OfflineLogs};
use crate::{
    error::{Error, Reason},
    metric::{FAN_OUT_SECONDS, MESSAGES_UNDELIVERED},
};

/// How long a send waits for its fan-out, as long again until recipients without a receiver are entered, and
/// as long again until the store has a failed step's note.
const FAN_OUT_WAIT: Duration = Duration::from_secs(1);

/// Brings messages to their recipients' inboxes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Delivery(Arc<DeliveryInner>);

#[derive(Debug)]
struct DeliveryInner {
    inboxes: Inboxes,
    recipients: Recipients,
    limits: InboxLimits,
    pending: PendingDeliveries,
    /// `None`: there is no other node, and its inboxes end with it.
    notes: Option<StepNotes>,
    /// `None`: recipients without a receiver are not entered.
    offline: Option<OfflineLogs>,
}

impl Delivery {
    /// Creates it over inboxes with these limits. `notes`: let another node resume steps that this node
    /// leaves unfinished. `offline`: the logs for recipients without a receiver.
    #[must_use]
    pub fn new(
        inboxes: Inboxes,
        limits: InboxLimits,
        recipients: Recipients,
        notes: Option<StepNotes>,
        offline: Option<OfflineLogs>,
    ) -> Self {
        drop(metrics::histogram!(FAN_OUT_SECONDS.name));
        metrics::gauge!(MESSAGES_UNDELIVERED.name).set(0.0);
        Self(Arc::new(DeliveryInner {
            inboxes,
            recipients,
            limits,
            pending: PendingDeliveries::default(),
            notes,
            offline,
        }))
    }

    /// The inboxes to which it delivers.
    pub(super) fn inboxes(&self) -> &Inboxes {
        &self.0.inboxes
    }

    pub(super) fn limits(&self) -> &InboxLimits {
        &self.0.limits
    }

    /// The users whose inboxes get a conversation's messages; `None`: none, because there are too many.
    pub(super) async fn recipients(
        &self,
        conversation: ConversationId,
    ) -> Result<Option<Arc<[UserId]>>, Error> {
        Ok(match self.0.recipients.of(conversation).await? {
            DeliveryTargets::Users(users) => Some(users),
            DeliveryTargets::Registered => None,
        })
    }

    /// Whether there may be other nodes, and recipients without a receiver are entered.
    pub(super) fn names_for_other_nodes(&self) -> bool {
        self.0.notes.is_some() && self.0.offline.is_some()
    }

    /// Returns how many members a group has.
    pub(super) async fn count(&self, group: GroupId) -> Result<u32, Error> {
        self.0.recipients.count(group).await
    }

    /// Begins a step, before its append: it is noted, so that its messages are delivered also if this node
    /// dies.
    pub(super) async fn begin(&self, conversation: ConversationId) -> StepDelivery {
        let notes = match &self.0.notes {
            Some(notes) => notes.begin(conversation).await,
            None => NotedSteps::default(),
        };
        StepDelivery { delivery: self.clone(), conversation, notes }
    }

    fn end(&self, steps: NotedSteps) {
        if let Some(notes) = &self.0.notes {
            notes.end(steps);
        }
    }

    /// The wake for messages up to `last`. `messages`: the last of them, with contiguous numbers; may be
    /// empty.
    fn sent_messages(&self, conversation: ConversationId, last: Seq, messages: &[Message]) -> SentMessages {
        let sent = messages.last().map_or_else(Timestamp::now, |message| message.sent);
        SentMessages { conversation, last, sent, entries: entries(messages, self.0.limits.wake_bytes) }
    }

    /// Enters messages into their recipients' inboxes. Returns once they are in all; their nodes are woken
    /// after that.
    async fn fan_out(
        &self,
        sent: SentMessages,
        registered: impl Future<Output = Option<Vec<NodeName>>>,
    ) -> Result<FanOutOutcome, Error> {
        match self.0.recipients.of(sent.conversation).await? {
            DeliveryTargets::Users(users) => self.fan_out_to(&users, &sent).await.map(FanOutOutcome::Inboxes),
            DeliveryTargets::Registered => {
                let nodes = registered.await;
                self.wake_registered(sent, nodes).await.map(|()| FanOutOutcome::Registered)
            }
        }
    }

    /// Returns the recipients who have no receiver.
    async fn fan_out_to(&self, users: &[UserId], sent: &SentMessages) -> Result<Vec<UserId>, Error> {
        let DeliveryInner { inboxes, limits, .. } = &*self.0;
        let some = users.chunks(limits.users_at_once.max(1));
        let done: Vec<FanOutResult> =
            join_all(some.map(async |users| inboxes.keeper.fan_out(sent, users).await)).await;
        let has_failed = done.iter().any(|done| done.failed.is_some());
        let (mut wakes, mut absent) = (Vec::new(), Vec::new());
        for mut done in done {
            wakes.append(&mut done.wakes);
            absent.append(&mut done.without_receiver);
        }
        inboxes.publish(wakes);
        if has_failed { Err(inboxes_unavailable()) } else { Ok(absent) }
    }

    /// `nodes`: those that read the conversation; `None`: they are looked up.
    async fn wake_registered(&self, sent: SentMessages, nodes: Option<Vec<NodeName>>) -> Result<(), Error> {
        let inboxes = &self.0.inboxes;
        let nodes = match nodes {
            Some(nodes) => nodes,
            None => {
                let nodes = inboxes.keeper.registered(sent.conversation).await;
                nodes.map_err(|_| inboxes_unavailable())?
            }
        };
        let wake = |node| NodeWake { node, wake: Wake::Conversation(sent.clone()) };
        inboxes.publish(nodes.into_iter().map(wake).collect());
        Ok(())
    }

    /// Retries all fan-outs that failed, once.
    async fn retry_all(&self) {
        for some in self.0.pending.all().chunks(pending::RETRIED_AT_ONCE) {
            join_all(some.iter().map(|(conversation, due)| self.retry(*conversation, *due))).await;
        }
    }

    async fn retry(&self, conversation: ConversationId, due: UndeliveredMessages) {
        let sent = self.sent_messages(conversation, due.last, &[]);
        let Ok(fanned) = self.fan_out(sent, ready(None)).await else { return };
        let announced = match due.unannounced {
            Some(first) => {
                self.announce_stored(conversation, SeqRange { first, last: due.last }, &fanned).await
            }
            None => Ok(()),
        };
        if announced.is_ok() {
            self.done(conversation, due);
        }
    }

    fn done(&self, conversation: ConversationId, done: UndeliveredMessages) {
        if let Some(steps) = self.0.pending.done(conversation, done) {
            self.end(steps);
        }
    }
}

/// The entries for the last messages that together have at most this many bytes.
fn entries(messages: &[Message], bytes_max: usize) -> Vec<Bytes> {
    let mut bytes = 0;
    let encoded = messages.iter().rev().map_while(entry::encode);
    let mut entries: Vec<Bytes> = encoded
        .take_while(|entry| {
            bytes += entry.len();
            bytes <= bytes_max
        })
        .collect();
    entries.reverse();
    entries
}

pub(super) fn inboxes_unavailable() -> Error {
    Error::new(Reason::StoreUnavailable, "inboxes cannot be written now: Redis does not answer")
}
