//! Fan-outs that a node left undone when it died.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::ready, stream};
use kith_store::{BATCH_MAX, ConversationId, DueNote, FanOutNote, MessageStore, Seq, Stores};

use super::{Delivery, StepNotes, notes::NoteStorage};
use crate::{
    error::Error,
    message::store_error,
    metric::{FAN_OUTS_RESUMED, count_from_zero},
    write::{lease::Lease, rounds::Rounds, tasks::BackgroundJob},
};

const ROUNDS: Rounds = Rounds {
    lease: "fan_outs",
    lease_lasts: Duration::from_secs(5),
    period: Duration::from_secs(2),
    failed: "fan-outs that other nodes left undone cannot be looked for",
};
/// A step takes less if its node runs.
const DUE_AFTER: Duration = Duration::from_secs(3);
/// A dead node's append may arrive this late. Until then its conversation is delivered again.
const ENDED_AFTER: Duration = Duration::from_secs(15);
/// The most notes read from each part of the conversations in Redis, and from the store.
const DUE_MAX: usize = 250;
/// Conversations that are delivered at the same time.
const AT_ONCE: usize = 16;

#[derive(Debug)]
pub(super) struct Resumption {
    pub(super) delivery: Delivery,
    pub(super) notes: StepNotes,
    pub(super) store: Arc<dyn MessageStore>,
}

/// The job that delivers messages that other nodes left undelivered: a message is in its recipients' inboxes
/// within 11 s after its node's death. It has no work if there are no other nodes. `node_id`: this node's id,
/// if there are others.
#[must_use]
pub fn resumption_job(stores: &Stores, delivery: Delivery, node_id: Option<&str>) -> BackgroundJob {
    count_from_zero(FAN_OUTS_RESUMED, &NoteStorage::ALL.map(NoteStorage::name));
    let Some(notes) = delivery.0.notes.clone() else { return BackgroundJob::new([]) };
    let resumption = Resumption { delivery, notes, store: Arc::clone(&stores.messages) };
    let round = async move |_: &mut Lease| resumption.round().await;
    BackgroundJob::new([ROUNDS.run(&stores.coordination, node_id, round).boxed()])
}

impl Resumption {
    /// Delivers what is due.
    pub(super) async fn round(&self) -> Result<(), Error> {
        for storage in NoteStorage::ALL {
            self.resume_all(storage).await?;
        }
        Ok(())
    }

    async fn resume_all(&self, storage: NoteStorage) -> Result<(), Error> {
        let due = self.notes.due(storage, DUE_AFTER, DUE_MAX).await?;
        let mut conversations: HashMap<ConversationId, Vec<DueNote>> = HashMap::new();
        for due in due {
            conversations.entry(due.note.conversation).or_default().push(due);
        }
        let all: Vec<ConversationId> = conversations.keys().copied().collect();
        for some in all.chunks(BATCH_MAX) {
            let ends = self.store.ends(some).await.map_err(store_error)?;
            let ends = some.iter().zip(ends).map(|(conversation, end)| (*conversation, end.seq));
            let each = ends.map(|(conversation, end)| {
                self.resume(storage, conversation, end, &conversations[&conversation])
            });
            stream::iter(each.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
        }
        Ok(())
    }

    /// Delivers a conversation up to its end, and removes notes for ended steps. A conversation that fails is
    /// due again.
    async fn resume(&self, storage: NoteStorage, conversation: ConversationId, end: Seq, due: &[DueNote]) {
        if end > 0 && self.deliver(conversation, end, due).await.is_err() {
            return;
        }
        let ended = due.iter().filter(|due| due.age >= ENDED_AFTER);
        let ended: Vec<FanOutNote> = ended.map(|due| due.note.clone()).collect();
        if !ended.is_empty() && self.notes.remove(storage, &ended).await.is_ok() {
            let count = u64::try_from(ended.len()).unwrap_or_default();
            metrics::counter!(FAN_OUTS_RESUMED.name, "source" => storage.name()).increment(count);
        }
    }

    async fn deliver(&self, conversation: ConversationId, end: Seq, due: &[DueNote]) -> Result<(), Error> {
        let sent = self.delivery.sent_messages(conversation, end, &[]);
        let fanned = self.delivery.fan_out(sent, ready(None)).await?;
        let oldest = due.iter().map(|due| due.age).max().unwrap_or_default();
        self.delivery.announce_resumed(conversation, end, oldest, &fanned).await
    }
}
