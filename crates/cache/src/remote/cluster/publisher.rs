//! The bus of a cluster: it changes cells, appends to the log and broadcasts, in one atomic step.

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{Epochs, PeerConfirmations};
use crate::{
    Acknowledge, Bus, BusError, Invalidation, Node, Position, UNPUBLISHED,
    api::clock::wall_clock_ms,
    remote::shared::{
        CellWrite, ChangeAnswer, LogEntry, Message, MessageMac, PublishedChange, SharedError, Sharing,
        address,
    },
    testing::rules,
};

/// Maximum changes that one step publishes.
const STEP: usize = 500;
/// First and maximum pause between two attempts to publish queued changes.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(200));

/// Publishes changes through the shared server. Queues changes that it cannot publish until it can.
#[derive(Debug)]
pub struct SharedBus {
    /// Number of this node.
    pub id: u64,
    /// The server that nodes share, and the changes that wait to be published there.
    pub sharing: Sharing,
    /// The epoch in the store, which is raised when the queue overflows.
    pub epochs: Arc<dyn Epochs>,
    /// Authenticates its messages to the other nodes.
    pub mac: MessageMac,
    /// Records the other nodes' confirmations.
    pub confirmations: Arc<PeerConfirmations>,
    /// How long the publication of a change may take before the change is queued.
    pub bound: Duration,
}

impl SharedBus {
    /// Publishes changes in the log that nodes follow now. If nodes had already left the log, publishes them
    /// again.
    async fn publish_in_present_log(
        &self,
        node: &Node,
        changes: &[Invalidation],
        acknowledge: Acknowledge,
    ) -> Result<Position, SharedError> {
        let strict = acknowledge == Acknowledge::Confirmed;
        let (mut epoch, mut applied) = (node.epoch(), node.applied());
        loop {
            let changed = self.publish_in(node, epoch, changes, strict).await?;
            if changed.epoch > epoch && rules::published_in_epoch() {
                (epoch, applied) = (changed.epoch, 0);
                continue;
            }
            if fell_back(&changed, epoch, applied) {
                return Err(SharedError::Fallen);
            }
            if strict {
                self.confirmations.confirmed_by_all(self.id, epoch, &changed).await;
            }
            self.sharing.queue.record_published(epoch, changes);
            return Ok(Position { partition: 0, epoch, number: changed.number });
        }
    }

    async fn publish_in(
        &self,
        node: &Node,
        epoch: u64,
        changes: &[Invalidation],
        strict: bool,
    ) -> Result<ChangeAnswer, SharedError> {
        let nonce = node.random_id();
        let published = changes.iter().map(PublishedChange::of).collect();
        let message = Message { origin: self.id, strict, sent_ms: wall_clock_ms(), changes: published };
        let message = message.encode().ok_or(SharedError::Unexpected)?;
        let message = self.mac.sign(nonce, &message);
        let writes = cell_writes(changes, epoch, nonce);
        let change =
            self.sharing.backend.change(epoch, &writes, LogEntry { nonce, message: &message, strict });
        timeout(self.bound, change).await.unwrap_or(Err(SharedError::Timeout))
    }

    /// Publishes these changes, or fails. Queues no change.
    ///
    /// # Errors
    /// If the server does not answer. Some of the changes may be published.
    pub async fn publish_now(&self, node: &Node, changes: &[Invalidation]) -> Result<(), SharedError> {
        for step in changes.chunks(STEP) {
            self.publish_in_present_log(node, step, Acknowledge::Published).await?;
        }
        Ok(())
    }

    /// Publishes queued changes as soon as possible, until it is dropped.
    pub async fn drain(&self, node: &Node) {
        let mut pause = RETRY.0;
        loop {
            self.sharing.queue.until_not_empty().await;
            let (batch, revisions) = self.sharing.queue.next_batch(STEP);
            match self.publish_in_present_log(node, &batch, Acknowledge::Published).await {
                Ok(_) => {
                    self.sharing.queue.remove_published(&batch, &revisions);
                    pause = RETRY.0;
                }
                Err(_) => {
                    sleep(pause).await;
                    pause = (pause * 2).min(RETRY.1);
                }
            }
        }
    }

    /// Queues changes. If the queue is full, the epoch is raised: instead of single keys, all copies are
    /// invalidated.
    async fn enqueue(&self, changes: &[Invalidation]) -> Result<(), BusError> {
        let is_queued =
            !rules::unpublished_waits() || changes.iter().all(|change| self.sharing.queue.add(change));
        if is_queued { Ok(()) } else { self.discard_copies().await.map_err(BusError::new) }
    }

    /// Raises the epoch, so that no earlier copy is used. This node moves to the new epoch at once, and other
    /// nodes follow.
    pub(super) async fn discard_copies(&self) -> Result<(), SharedError> {
        let epoch = self.epochs.raise_present().await?;
        self.sharing.queue.raise_barrier(epoch);
        Ok(())
    }
}

/// Whether the server has lost the epoch, or entries of its log that the node has applied. Such a server does
/// not know that other nodes may follow a later epoch.
fn fell_back(changed: &ChangeAnswer, epoch: u64, applied: u64) -> bool {
    changed.epoch < epoch && rules::published_where_known()
        || changed.number <= applied && rules::published_beyond()
}

fn cell_writes(changes: &[Invalidation], epoch: u64, token: u64) -> Vec<(String, CellWrite)> {
    let write = |change: &Invalidation| {
        let copy = change.copy.clone().filter(|_| rules::written_through());
        let write = match copy {
            Some(mut cell) => {
                cell.header.token = token;
                CellWrite::Put(cell)
            }
            None => CellWrite::Invalidate(change.version),
        };
        (address(epoch, change.namespace, &change.key), write)
    };
    changes.iter().map(write).collect()
}

#[async_trait::async_trait]
impl Bus for SharedBus {
    async fn publish(
        &self,
        node: &Node,
        changes: &[Invalidation],
        acknowledge: Acknowledge,
    ) -> Result<Position, BusError> {
        let mut last = Position { partition: 0, epoch: node.epoch(), number: 0 };
        let (mut steps, mut failure) = (changes.chunks(STEP), None);
        while let Some(step) = steps.next() {
            // A node that has applied the last entry has applied those before it.
            let is_awaited = steps.len() == 0 && failure.is_none();
            let acknowledge = if is_awaited { acknowledge } else { Acknowledge::Published };
            match self.publish_in_present_log(node, step, acknowledge).await {
                // A part that waits has no number yet: no later position covers it.
                Ok(_) if last.number == UNPUBLISHED => {}
                Ok(position) => last = last.max(position),
                Err(error) => {
                    self.enqueue(step).await?;
                    last.number = UNPUBLISHED;
                    failure = Some(error);
                }
            }
        }
        match failure {
            Some(error) if acknowledge == Acknowledge::Confirmed && rules::strict_published() => {
                Err(BusError::new(error))
            }
            Some(_) | None => Ok(last),
        }
    }
}
