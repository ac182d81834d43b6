//! A step's delivery: noted before its append, ended when its messages are in all inboxes.

use std::future::ready;

use kith_delivery::SentMessages;
use kith_store::{ConversationId, Message, NodeName};
use tokio::time::{Instant, timeout};

use super::{Delivery, FAN_OUT_WAIT, notes::NotedSteps, pending::UndeliveredMessages};
use crate::{message::logs::LogAdditions, metric::FAN_OUT_SECONDS};

/// A step that is noted. If it is dropped, another node finds the note, and delivers the conversation up to
/// its end.
#[derive(Debug)]
#[must_use = "the note is removed when the messages are delivered"]
pub(in crate::message) struct StepDelivery {
    pub(super) delivery: Delivery,
    pub(super) conversation: ConversationId,
    pub(super) notes: NotedSteps,
}

impl StepDelivery {
    /// Delivers an append's messages, also those that an earlier append had stored. `registered`: the nodes
    /// that read the conversation, as the window knows them after the append.
    pub(in crate::message) async fn appended(
        self,
        added: &LogAdditions,
        registered: impl Future<Output = Option<Vec<NodeName>>>,
    ) {
        let Some(last) = added.last else { return self.end() };
        let run = added.runs.last().filter(|run| run.last().is_some_and(|message| message.seq == last));
        let messages = run.map(Vec::as_slice).unwrap_or_default();
        let sent = self.delivery.sent_messages(self.conversation, last, messages);
        self.deliver(sent, Some(added), registered).await;
    }

    /// Delivers a stored message, for which no user without a receiver is notified.
    pub(in crate::message) async fn appended_one(self, message: &Message) {
        let messages = std::slice::from_ref(message);
        let sent = self.delivery.sent_messages(self.conversation, message.seq, messages);
        self.deliver(sent, None, ready(None)).await;
    }

    /// Ends a step that has nothing left to deliver.
    pub(in crate::message) fn end(self) {
        self.delivery.end(self.notes);
    }

    async fn deliver(
        self,
        sent: SentMessages,
        added: Option<&LogAdditions>,
        registered: impl Future<Output = Option<Vec<NodeName>>>,
    ) {
        let Self { delivery, conversation, .. } = &self;
        let (conversation, last, began) = (*conversation, sent.last, Instant::now());
        let fanned =
            timeout(FAN_OUT_WAIT, delivery.fan_out(sent, registered)).await.ok().and_then(Result::ok);
        if fanned.is_some() {
            metrics::histogram!(FAN_OUT_SECONDS.name).record(began.elapsed());
        }
        let announced = async {
            let Some(added) = added else { return Ok(()) };
            let messages = delivery.messages_to_announce(conversation, added).await?;
            delivery.announce(conversation, &messages, fanned.as_ref()).await
        };
        let is_announced = matches!(timeout(FAN_OUT_WAIT, announced).await, Ok(Ok(())));
        let unannounced = added.filter(|_| !is_announced).and_then(LogAdditions::first_announced);
        let undelivered = UndeliveredMessages { last, unannounced };
        if fanned.is_some() && is_announced {
            delivery.done(conversation, undelivered);
            self.end();
        } else {
            self.leave_pending(undelivered).await;
        }
    }

    /// Leaves messages to the retries. A note that Redis did not take is written into the store, so that
    /// another node delivers the messages if this node dies.
    async fn leave_pending(self, undelivered: UndeliveredMessages) {
        let Self { delivery, conversation, mut notes } = self;
        let pending = &delivery.0.pending;
        if let Some(step_notes) = &delivery.0.notes
            && notes.is_missing()
            && !pending.is_in_store(conversation)
        {
            drop(timeout(FAN_OUT_WAIT, step_notes.keep(&mut notes)).await);
        }
        pending.note(conversation, undelivered, notes);
    }
}
