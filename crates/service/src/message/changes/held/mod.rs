//! A change's write, and the message's copies.
//!
//! Invariant: after a change is acknowledged, no read shows the previous message. The window is held from
//! before the write until after it, and documents in the tiers are strict.

use std::{sync::Arc, time::Duration};

use kith_delivery::WindowHold;
use kith_store::{
    ContentChange, ConversationId, DocumentKey, MessageChange, MessageChangeOutcome, NewMessage, Outcome,
    Seq, StoreError, document_of,
};
use tokio::time::sleep;

use super::super::{Messages, logs::Logs, range::store_error};
use crate::{
    error::{Error, Reason},
    write::mutations::{Mutations, unknown},
};

/// If a change's outcome is unknown, the window is held again after each of these pauses: the write may
/// arrive late.
const HOLD_PAUSES: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(25), Duration::from_secs(60)];

/// Writes changes. Cheap to clone.
#[derive(Clone, Debug)]
struct ChangeWriter {
    logs: Logs,
    mutations: Mutations,
}

impl Messages {
    /// Writes a change with its event. The only place that does.
    ///
    /// # Errors
    /// UNAVAILABLE, and nothing is written, if Redis does not answer; else errors of the store.
    pub(super) async fn change(
        &self,
        conversation: ConversationId,
        change: MessageChange,
    ) -> Result<MessageChangeOutcome, Error> {
        let writer = ChangeWriter { logs: self.logs.clone(), mutations: self.mutations.clone() };
        let event = change.event.clone();
        let begin = self.queue.delivery.begin(conversation);
        let (changed, delivery) = tokio::join!(writer.change(conversation, change), begin);
        let changed = changed?;
        match changed {
            // The change is visible to all readers; its event follows.
            MessageChangeOutcome::Done { event_seq, .. } => {
                tokio::spawn(async move { delivery.appended_one(&event.numbered(event_seq)).await });
            }
            MessageChangeOutcome::Refused(_) | MessageChangeOutcome::Missing => delivery.end(),
        }
        Ok(changed)
    }
}

impl ChangeWriter {
    async fn change(
        &self,
        conversation: ConversationId,
        change: MessageChange,
    ) -> Result<MessageChangeOutcome, Error> {
        let hold = self.logs.windows.hold(conversation).await.map_err(|_| windows_unavailable())?;
        let event = change.event.clone();
        let changed = match self.write(conversation, change).await {
            // The hold continues: the write may still arrive.
            Err(error) if error.outcome() == Outcome::Unknown => Err(error),
            written => {
                let released = self.logs.release(hold).await;
                written.and_then(|changed| released.map(|()| changed))
            }
        };
        match &changed {
            Ok(changed) => self.announce(conversation, event, changed),
            Err(error) if error.outcome() == Outcome::Unknown => self.hold_repeatedly(conversation),
            Err(_) => {}
        }
        changed.map_err(store_error)
    }

    async fn write(
        &self,
        conversation: ConversationId,
        change: MessageChange,
    ) -> Result<MessageChangeOutcome, StoreError> {
        let key = DocumentKey { conversation, document: document_of(change.seq) };
        let reactions = match change.content {
            ContentChange::Recall(_) => self.logs.begin_reactions_end(key).await,
            ContentChange::Edit(_) => None,
        };
        let store = Arc::clone(&self.logs.store);
        let write = Box::pin(async move { store.change(conversation, &change).await });
        let written =
            self.mutations.write_all_with(&self.logs.documents, vec![key], reactions, write).await?;
        Ok(MessageChangeOutcome::clone(&written.record))
    }

    /// Adds the event to the window, which drops it, in the background: a window that exists by then was
    /// filled after the write.
    fn announce(&self, conversation: ConversationId, event: NewMessage, changed: &MessageChangeOutcome) {
        let MessageChangeOutcome::Done { event_seq, .. } = changed else { return };
        let (logs, seq) = (self.logs.clone(), *event_seq);
        tokio::spawn(async move { logs.announce(conversation, event, seq).await });
    }

    fn hold_repeatedly(&self, conversation: ConversationId) {
        let logs = self.logs.clone();
        tokio::spawn(async move {
            for later in HOLD_PAUSES {
                sleep(later).await;
                if let Ok(hold) = logs.windows.hold(conversation).await {
                    drop(logs.release(hold).await);
                }
            }
        });
    }
}

impl Logs {
    /// Ends a hold after the write.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with unknown outcome: a window may show the previous message.
    pub(in crate::message) async fn release(&self, hold: WindowHold) -> Result<(), StoreError> {
        self.windows.release(hold).await.map_err(|_| unknown("windows may show the message as it was"))
    }

    async fn announce(&self, conversation: ConversationId, event: NewMessage, seq: Seq) {
        if self.windows.append(conversation, &[event.numbered(seq)], true, None).await.is_err() {
            tracing::debug!("an event is seen by the next reader that compares the window with the store");
        }
    }
}

fn windows_unavailable() -> Error {
    Error::new(Reason::StoreUnavailable, "messages cannot be changed now: Redis does not answer")
}

#[cfg(test)]
mod tests;
