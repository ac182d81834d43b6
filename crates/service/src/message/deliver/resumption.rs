//! Fan-outs that a node left undone when it died.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::ready, stream};
use kith_store::{BATCH_MAX, ConversationId, DueNote, FanOutNote, MessageStore, Seq, Stores};
use tokio::time::sleep;

use super::{Delivery, StepNotes, notes::NoteStorage};
use crate::{
    error::Error,
    message::store_error,
    metric::{FAN_OUTS_RESUMED, count_from_zero},
    write::{lease::Lease, tasks::BackgroundJob},
};

/// The approximate time between searches for notes.
const PERIOD: Duration = Duration::from_secs(2);
/// A step takes less if its node runs.
const DUE_AFTER: Duration = Duration::from_secs(3);
/// A dead node's append may arrive this late. Until then its conversation is delivered again.
const ENDED_AFTER: Duration = Duration::from_secs(15);
/// The most notes read from each part of the conversations in Redis, and from the store.
const DUE_MAX: usize = 250;
/// Conversations that are delivered at the same time.
const AT_ONCE: usize = 16;
/// The name of the searching node's lease.
const LEASE: &str = "fan_outs";
const LEASE_LASTS: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct ResumptionRounds {
    pub(super) delivery: Delivery,
    pub(super) notes: StepNotes,
    pub(super) store: Arc<dyn MessageStore>,
    pub(super) lease: Lease,
}

/// The job that delivers messages that other nodes left undelivered: a message is in its recipients' inboxes
/// within 11 s after its node's death. It has no work if there are no other nodes. `node_id`: this node's id,
/// if there are others.
#[must_use]
pub fn resumption_job(stores: &Stores, delivery: Delivery, node_id: Option<&str>) -> BackgroundJob {
    count_from_zero(FAN_OUTS_RESUMED, &NoteStorage::ALL.map(NoteStorage::name));
    let notes = delivery.0.notes.clone();
    let lease = Lease::new(&stores.coordination, LEASE, node_id, LEASE_LASTS);
    let store = Arc::clone(&stores.messages);
    let rounds = notes.map(|notes| ResumptionRounds { delivery, notes, store, lease });
    BackgroundJob::new(rounds.map(|rounds| rounds.run().boxed()))
}

impl ResumptionRounds {
    async fn run(mut self) {
        loop {
            if let Err(error) = self.round().await {
                tracing::debug!(%error, "fan-outs that are not finished cannot be looked for");
            }
            sleep(PERIOD.mul_f64(rand::random_range(0.75..1.0))).await;
        }
    }

    /// Delivers what is due, if this node has the lease.
    pub(super) async fn round(&mut self) -> Result<(), Error> {
        if !self.lease.is_held().await.map_err(store_error)? {
            return Ok(());
        }
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
