use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use kith_store::{Seq, SeqRange, SequenceName, SequenceStore, StoreError};
use parking_lot::Mutex;
use tokio::time::sleep;

/// How long a step takes: about as long as a durable write to a replica set.
const STEP: Duration = Duration::from_millis(4);

/// Stores where one sequence's blocks end. Clones share the state.
#[derive(Clone, Debug, Default)]
pub(super) struct OneSequenceStore(Arc<SequenceState>);

#[derive(Debug, Default)]
struct SequenceState {
    last: Mutex<Seq>,
    steps: AtomicU64,
}

impl OneSequenceStore {
    pub(super) fn steps(&self) -> u64 {
        self.0.steps.load(Ordering::Acquire)
    }

    pub(super) async fn read(&self) -> Seq {
        self.step().await;
        *self.0.last.lock()
    }

    pub(super) async fn write(&self, last: Seq) {
        self.step().await;
        *self.0.last.lock() = last;
    }

    /// Adds `count` numbers in one step. Returns the previous end.
    pub(super) async fn add(&self, count: Seq) -> Seq {
        self.step().await;
        let mut last = self.0.last.lock();
        *last += count;
        *last - count
    }

    async fn step(&self) {
        self.0.steps.fetch_add(1, Ordering::AcqRel);
        sleep(STEP).await;
    }
}

#[async_trait]
impl SequenceStore for OneSequenceStore {
    async fn take_seqs(&self, _: &SequenceName, count: u32, above: Seq) -> Result<SeqRange, StoreError> {
        self.step().await;
        let mut last = self.0.last.lock();
        let first = above.max(*last) + 1;
        *last = first + i64::from(count) - 1;
        Ok(SeqRange { first, last: *last })
    }

    async fn max_seqs(&self, names: &[SequenceName]) -> Result<Vec<Seq>, StoreError> {
        Ok(vec![self.read().await; names.len()])
    }
}
