//! The bus of a cluster: a change of cells, an entry of the log and a broadcast in one step.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{Changed, Entry, Epochs, Order, Queue, Shared, SharedError, Told, Waiting, address, message};
use crate::{Bus, BusError, Invalidation, Node, Position, guards};

/// A number that no log reaches: of a change that could not be told yet.
pub const UNTOLD: u64 = u64::MAX;

/// Most changes that one step tells.
const STEP: usize = 500;
/// Pauses between two tries to tell what waits.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Tells changes by the shared server; keeps what it cannot tell until it can.
pub struct SharedBus {
    /// The server that nodes share.
    pub shared: Arc<dyn Shared>,
    /// What waits to be told.
    pub queue: Arc<Queue>,
    /// Where the epoch is kept, which is raised when the queue overflows.
    pub epochs: Arc<dyn Epochs>,
    /// How long a change may take before it waits.
    pub bound: Duration,
}

impl SharedBus {
    /// Tells changes in the log that nodes follow now. Told only in one that they have left, they are told
    /// again.
    async fn tell(&self, node: &Node, changes: &[Waiting]) -> Result<Position, SharedError> {
        let mut epoch = node.epoch();
        loop {
            let changed = self.tell_in(node, epoch, changes).await?;
            if changed.epoch <= epoch || !guards::told_in_epoch() {
                return Ok(Position { partition: 0, epoch, number: changed.number });
            }
            epoch = changed.epoch;
        }
    }

    async fn tell_in(&self, node: &Node, epoch: u64, changes: &[Waiting]) -> Result<Changed, SharedError> {
        let orders: Vec<(String, Order)> = changes
            .iter()
            .map(|change| {
                let address = address(epoch, change.namespace, &change.key);
                (address, Order::Invalidate(change.version))
            })
            .collect();
        let told: Vec<Told<'_>> = changes
            .iter()
            .map(|change| Told { namespace: change.namespace, key: &change.key, version: change.version })
            .collect();
        let (message, _whole) = message(&told);
        let entry = Entry { nonce: node.token_number(), message: &message };
        let change = self.shared.change(epoch, &orders, entry);
        timeout(self.bound, change).await.unwrap_or(Err(SharedError::Timeout))
    }

    /// Tells what waits, whenever something does, until it is dropped.
    pub async fn drain(&self, node: &Node) {
        let mut pause = RETRY.0;
        loop {
            let some = self.queue.some(STEP);
            if some.is_empty() {
                sleep(RETRY.0).await;
                continue;
            }
            match self.tell(node, &some).await {
                Ok(_) => {
                    self.queue.told(&some);
                    pause = RETRY.0;
                }
                Err(_) => {
                    sleep(pause).await;
                    pause = (pause * 2).min(RETRY.1);
                }
            }
        }
    }

    /// Lets changes wait. With no room left, the epoch is raised: what cannot be told key by key is told of
    /// all.
    async fn wait(&self, changes: &[Waiting]) -> Result<(), BusError> {
        let fit = changes.iter().all(|change| self.queue.add(change.namespace, &change.key, change.version));
        if fit {
            return Ok(());
        }
        // Not the epoch of this node: nodes may have moved on before the change, and would not be told.
        let (current, server) = self.epochs.current().await.map_err(BusError::new)?;
        let epoch = self.epochs.raise(current, &server).await.map_err(BusError::new)?;
        self.queue.overflowed(epoch);
        Ok(())
    }
}

#[async_trait::async_trait]
impl Bus for SharedBus {
    async fn publish(&self, node: &Node, changes: &[Invalidation]) -> Result<Position, BusError> {
        let waiting: Vec<Waiting> = changes
            .iter()
            .map(|change| Waiting::new(change.namespace, change.key.clone(), change.version))
            .collect();
        let mut last = Position { partition: 0, epoch: node.epoch(), number: 0 };
        for step in waiting.chunks(STEP) {
            match self.tell(node, step).await {
                Ok(position) => last = last.max(position),
                Err(_) => {
                    self.wait(step).await?;
                    last.number = UNTOLD;
                }
            }
        }
        Ok(last)
    }
}

impl fmt::Debug for SharedBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBus").field("waiting", &self.queue.len()).finish_non_exhaustive()
    }
}
