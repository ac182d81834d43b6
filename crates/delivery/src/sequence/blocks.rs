//! Allocates sequence numbers to batches of callers: from blocks in the keeper, which are refilled in
//! advance, or directly from the store if the keeper does not answer.

use std::{fmt, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use kith_cache::Clock;
use kith_store::{SeqRange, SequenceStore, StoreError};

use super::{
    keeper::{FetchLease, Offer, SequenceKeeper, Take, Taken},
    limits::SequenceLimits,
    local_sequence::{Batch, Fetch, LocalSequence, Need},
};
use crate::metrics::{BlockCounts, BlockUse};

/// The most takes and fetches in one batch. After these, other nodes use up this node's blocks, and it takes
/// its numbers from the store.
const ROUNDS: u32 = 16;
/// Time between two takes while another node fetches the block.
const POLL: Duration = Duration::from_millis(5);
/// The most polls in one batch: one second, four leases. After these, the batch takes its numbers from the
/// store.
const POLLS: u32 = 200;

/// Runs work in the background, and waits.
pub trait Background: Send + Sync + fmt::Debug + 'static {
    /// Starts it; it ends by itself.
    fn run(&self, work: BoxFuture<'static, ()>);

    /// Ends after this time.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// The source of numbers for batches.
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
    /// A sequence's next batch. It begins when the batch before has ended.
    pub(super) fn batch(self: &Arc<Self>, sequence: &Arc<LocalSequence>, before: Option<Batch>) -> Batch {
        let (source, sequence) = (Arc::clone(self), Arc::clone(sequence));
        let batch = async move {
            if let Some(before) = before {
                before.await.ok();
            }
            match sequence.close() {
                Some(need) => source.serve(&sequence, need).await.map(Into::into),
                None => Ok(Vec::new().into()),
            }
        };
        batch.boxed().shared()
    }

    /// Gets a batch's numbers, by rising number: from the keeper, and from the store if that does not answer.
    async fn serve(
        self: &Arc<Self>,
        sequence: &Arc<LocalSequence>,
        need: Need,
    ) -> Result<Vec<SeqRange>, StoreError> {
        let (mut ranges, mut missing) = (Vec::new(), need.count);
        let (mut rounds, mut polls) = (0, 0);
        while missing > 0 && rounds < ROUNDS && polls < POLLS {
            let seen = sequence.seen().max(need.above);
            let now = self.clock.now();
            let take =
                Take { count: missing, seen, low: sequence.low(), renews: sequence.is_renewal_due(now) };
            let Ok(Taken { numbers, lease }) = self.keeper.take(&sequence.name, take).await else { break };
            if take.renews {
                sequence.renewed(now);
            }
            if let Some(range) = numbers {
                sequence.record_seen(range.last);
                missing = missing.saturating_sub(count(range));
                add(&mut ranges, range);
                if lease.is_some() {
                    // The next block is fetched before it is needed, and no caller waits for it.
                    self.fetch(sequence, lease, Need { count: 0, above: 0 });
                }
                rounds += 1;
            } else if let Some(fetch) = self.fetch(sequence, lease, Need { count: missing, ..need }) {
                fetch.await?;
                rounds += 1;
            } else {
                self.background.sleep(POLL).await;
                polls += 1;
            }
        }
        if missing > 0 {
            add(&mut ranges, self.take_from_store(sequence, Need { count: missing, ..need }).await?);
        }
        Ok(ranges)
    }

    /// These numbers are never offered, so no other caller gets them.
    async fn take_from_store(&self, sequence: &LocalSequence, need: Need) -> Result<SeqRange, StoreError> {
        let seen = sequence.seen().max(need.above);
        let range = self.store.take_seqs(&sequence.name, need.count, seen).await?;
        sequence.record_seen(range.last);
        self.counts.count(BlockUse::Direct);
        Ok(range)
    }

    /// Takes a block from the store and offers it; once at a time for each sequence. `None`: another node
    /// does so. The fetch goes on without its callers: a block that was taken and not offered would be lost.
    fn fetch(
        self: &Arc<Self>,
        sequence: &Arc<LocalSequence>,
        lease: Option<FetchLease>,
        least: Need,
    ) -> Option<Fetch> {
        let (fetch, is_new) = sequence.fetch(lease, |lease| {
            let (source, sequence) = (Arc::clone(self), Arc::clone(sequence));
            async move { source.fetch_block(&sequence, lease, least).await }.boxed().shared()
        })?;
        if is_new {
            self.background.run(fetch.clone().map(drop).boxed());
        }
        Some(fetch)
    }

    async fn fetch_block(
        &self,
        sequence: &LocalSequence,
        lease: FetchLease,
        least: Need,
    ) -> Result<(), StoreError> {
        let size = sequence.next_size(self.clock.now(), &self.limits).max(least.count);
        let seen = sequence.seen().max(least.above);
        let taken = self.store.take_seqs(&sequence.name, size, seen).await;
        let block = taken.inspect_err(|_| sequence.keep_lease(lease))?;
        self.counts.count(if least.count > 0 { BlockUse::Needed } else { BlockUse::Ahead });
        // Without an answer it may have been offered. It must not be used again, so its numbers are lost.
        self.keeper.offer(&sequence.name, Offer { block, seen, lease }).await.ok();
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
