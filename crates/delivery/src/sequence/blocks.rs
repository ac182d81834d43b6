//! The numbers of a batch: out of a block, or out of the store.

use std::{fmt, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use kith_cache::Clock;
use kith_store::{SeqRange, SequenceStore, StoreError};

use super::{
    keeper::{Offer, SequenceKeeper, Taken},
    limits::SequenceLimits,
    name::{Batch, Fetch, Name, Need},
};
use crate::metrics::{BlockCounts, BlockUse};

/// Most takes and fetches of one batch. After these, other nodes use up the blocks of this one, and it takes its
/// numbers from the store.
const ROUNDS: u32 = 16;

/// Runs work in the background.
pub trait Background: Send + Sync + fmt::Debug + 'static {
    /// Starts it; it ends by itself.
    fn run(&self, work: BoxFuture<'static, ()>);
}

/// The source of the numbers of batches.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) store: Arc<dyn SequenceStore>,
    pub(super) keeper: Arc<dyn SequenceKeeper>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) background: Arc<dyn Background>,
    pub(super) limits: SequenceLimits,
    pub(super) counts: BlockCounts,
}

impl Source {
    /// The next batch of a sequence. It begins when the one before has ended.
    pub(super) fn batch(self: &Arc<Self>, name: &Arc<Name>, before: Option<Batch>) -> Batch {
        let (source, name) = (Arc::clone(self), Arc::clone(name));
        let batch = async move {
            if let Some(before) = before {
                before.await.ok();
            }
            match name.close() {
                Some(need) => source.serve(&name, need).await.map(Into::into),
                None => Ok(Vec::new().into()),
            }
        };
        batch.boxed().shared()
    }

    /// Gets the numbers of a batch, by rising number: from the keeper, and from the store if that does not answer.
    async fn serve(self: &Arc<Self>, name: &Arc<Name>, need: Need) -> Result<Vec<SeqRange>, StoreError> {
        let (mut ranges, mut missing) = (Vec::new(), need.count);
        for _ in 0..ROUNDS {
            if missing == 0 {
                return Ok(ranges);
            }
            match self.keeper.take(&name.name, missing, name.seen().max(need.above)).await {
                Ok(Taken::Numbers { range, left }) => {
                    name.saw(range.last);
                    missing = missing.saturating_sub(count(range));
                    add(&mut ranges, range);
                    self.look_ahead(name, left);
                }
                Ok(Taken::Unknown | Taken::UsedUp) => {
                    self.fetch(name, Need { count: missing, ..need }).0.await?
                }
                Err(_) => break,
            }
        }
        if missing > 0 {
            add(&mut ranges, self.take_from_store(name, Need { count: missing, ..need }).await?);
        }
        Ok(ranges)
    }

    /// These numbers are never offered, so no other caller gets them.
    async fn take_from_store(&self, name: &Name, need: Need) -> Result<SeqRange, StoreError> {
        let seen = name.seen().max(need.above);
        let range = self.store.take_seqs(&name.name, need.count, seen).await?;
        name.saw(range.last);
        self.counts.count(BlockUse::Direct);
        Ok(range)
    }

    /// Fetches the next block before it is needed.
    fn look_ahead(self: &Arc<Self>, name: &Arc<Name>, left: u64) {
        if name.has_enough(left) {
            return;
        }
        if let (fetch, true) = self.fetch(name, Need { count: 0, above: 0 }) {
            self.background.run(fetch.map(drop).boxed());
        }
    }

    /// Takes a block from the store and offers it; one at a time for each sequence. Returns whether it is a new one.
    fn fetch(self: &Arc<Self>, name: &Arc<Name>, least: Need) -> (Fetch, bool) {
        name.fetch(|| {
            let (source, name) = (Arc::clone(self), Arc::clone(name));
            async move { source.fetch_block(&name, least).await }.boxed().shared()
        })
    }

    async fn fetch_block(&self, name: &Name, least: Need) -> Result<(), StoreError> {
        let size = name.next_size(self.clock.now(), &self.limits).max(least.count);
        let seen = name.seen().max(least.above);
        let block = self.store.take_seqs(&name.name, size, seen).await?;
        self.counts.count(if least.count > 0 { BlockUse::Needed } else { BlockUse::Ahead });
        // Without an answer it may have been offered. It must not be used again, so its numbers are lost.
        self.keeper.offer(&name.name, Offer { block, seen }).await.ok();
        Ok(())
    }
}

/// Adds a range above all others.
fn add(ranges: &mut Vec<SeqRange>, range: SeqRange) {
    match ranges.last_mut() {
        Some(last) if last.last + 1 == range.first => last.last = range.last,
        _ => ranges.push(range),
    }
}

fn count(range: SeqRange) -> u32 {
    u32::try_from(range.last - range.first + 1).unwrap_or(u32::MAX)
}
