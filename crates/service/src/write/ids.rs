//! Ids for new records: handed out of blocks that the store reserved, never twice.

use std::sync::Arc;

use kith_store::{IdKind, NodeStore, StoreError};
use tokio::sync::Mutex;

/// Hands out ids of one kind. Ids of a block that are not used when the node stops are lost.
#[derive(Debug)]
pub struct Ids {
    store: Arc<dyn NodeStore>,
    kind: IdKind,
    block: u32,
    /// Next id and the end of the block.
    range: Mutex<(i64, i64)>,
}

impl Ids {
    /// Reserves `block` ids at a time.
    #[must_use]
    pub fn new(store: Arc<dyn NodeStore>, kind: IdKind, block: u32) -> Self {
        Self { store, kind, block: block.max(1), range: Mutex::new((0, 0)) }
    }

    /// An id that was never returned, here or on another node. One store write per block.
    ///
    /// # Errors
    /// When a new block cannot be reserved.
    pub async fn next(&self) -> Result<i64, StoreError> {
        let mut range = self.range.lock().await;
        if range.0 >= range.1 {
            let block = self.store.allocate_ids(self.kind, self.block).await?;
            *range = (block.first, block.first + i64::from(block.count));
        }
        let id = range.0;
        range.0 += 1;
        Ok(id)
    }
}
