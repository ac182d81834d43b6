//! A store whose calls wait at the gate.

use std::{io, sync::Arc};

use async_trait::async_trait;
use kith_store::{Outcome, Seq, SeqRange, SequenceName, SequenceStore, StoreError};
use parking_lot::Mutex;

use super::truth::Truth;
use crate::model::stage::{CallOutcome, Stage};

#[derive(Debug)]
pub(super) struct ModelStore {
    pub(super) last: Mutex<Seq>,
    pub(super) stage: Arc<Stage>,
    pub(super) truth: Arc<Mutex<Truth>>,
    pub(super) reads_then_writes: bool,
}

#[async_trait]
impl SequenceStore for ModelStore {
    async fn take_seqs(&self, _: &SequenceName, count: u32, above: Seq) -> Result<SeqRange, StoreError> {
        let outcome = self.stage.gate().await;
        if outcome == CallOutcome::Failed {
            return Err(away());
        }
        let mut read = *self.last.lock();
        if self.reads_then_writes {
            self.stage.gate().await;
        } else {
            read = *self.last.lock();
        }
        let range = SeqRange { first: read.max(above) + 1, last: read.max(above) + i64::from(count) };
        *self.last.lock() = range.last;
        self.truth.lock().taken += 1;
        if outcome == CallOutcome::Made { Ok(range) } else { Err(away()) }
    }

    async fn max_seqs(&self, _: &[SequenceName]) -> Result<Vec<Seq>, StoreError> {
        unreachable!("no node reads where it ends")
    }
}

fn away() -> StoreError {
    StoreError::Unavailable {
        outcome: Outcome::Unknown,
        source: Arc::new(io::Error::from(io::ErrorKind::NotConnected)),
    }
}
