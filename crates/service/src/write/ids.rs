//! Ids for new records: taken from blocks that the store reserved, never twice.

use std::sync::Arc;

use kith_store::{IdKind, NodeStore, StoreError};
use tokio::sync::Mutex;

/// Hands out ids for one kind. A block's ids that are not used when the node stops are lost.
#[derive(Debug)]
pub struct Ids {
    store: Arc<dyn NodeStore>,
    kind: IdKind,
    block: u32,
    range: Mutex<FreeRange>,
}

/// The rest of the block in use.
#[derive(Debug, Default)]
struct FreeRange {
    next: i64,
    end: i64,
}

impl Ids {
    /// Reserves `block` ids at a time.
    #[must_use]
    pub fn new(store: Arc<dyn NodeStore>, kind: IdKind, block: u32) -> Self {
        Self { store, kind, block: block.max(1), range: Mutex::default() }
    }

    /// An id that was never returned, here or on another node. One store write per block.
    ///
    /// # Errors
    /// When a new block cannot be reserved.
    pub async fn next(&self) -> Result<i64, StoreError> {
        let mut range = self.range.lock().await;
        if range.next >= range.end {
            let block = self.store.allocate_ids(self.kind, self.block).await?;
            *range = FreeRange { next: block.first, end: block.first + i64::from(block.count) };
        }
        let id = range.next;
        range.next += 1;
        Ok(id)
    }

    /// Gives up the rest of this id's block, because a record whose id a caller chose already has it. The ids
    /// next to it are likely to be taken, too, and trying each would fail before a range that callers
    /// occupied ends.
    pub async fn pass_over(&self, taken: i64) {
        let mut range = self.range.lock().await;
        let is_of_block = (range.end - i64::from(self.block)..range.end).contains(&taken);
        if is_of_block {
            range.next = range.end;
        }
    }
}
