//! Sequence numbers: blocks from the store, issued by Redis or by one node's memory.

mod blocks;
mod keeper;
mod limits;
mod local_sequence;
mod lru_map;
mod memory;
#[cfg(feature = "redis")]
mod redis;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use kith_cache::Clock;
use kith_store::{Seq, SeqRange, SequenceName, SequenceStore, StoreError};
use parking_lot::Mutex;

pub use blocks::Background;
pub use keeper::{FetchLease, Offer, SequenceKeeper, Take, Taken};
pub use limits::SequenceLimits;
pub use memory::MemorySequences;
#[cfg(feature = "redis")]
pub use redis::RedisSequences;

use self::{
    blocks::Source,
    local_sequence::{JoinedBatch, LocalSequence, Need},
    lru_map::LruMap,
};
use crate::metrics::BlockCounts;

/// Issues sequence numbers. Cheap to clone.
///
/// A sequence number is issued once, also if nodes or the keeper fail. One node's numbers rise as long as it
/// knows the sequence ([`SequenceLimits::names`]); all nodes' numbers rise as long as they reach the keeper
/// and it keeps the sequence.
#[derive(Clone)]
pub struct Sequences(Arc<SequenceParts>);

struct SequenceParts {
    source: Arc<Source>,
    sequences: Mutex<LruMap<Arc<LocalSequence>>>,
    /// Calls that wait.
    waiting: AtomicUsize,
}

/// A call that waits, until dropped.
struct WaitingCall<'a>(&'a AtomicUsize);

impl Sequences {
    /// Creates it over a store's blocks and a keeper. `background` fetches blocks before they are needed.
    #[must_use]
    pub fn new(
        store: Arc<dyn SequenceStore>,
        keeper: Arc<dyn SequenceKeeper>,
        clock: Arc<dyn Clock>,
        background: Arc<dyn Background>,
        limits: SequenceLimits,
    ) -> Self {
        let source = Source { store, keeper, clock, background, limits, counts: BlockCounts::new() };
        let sequences = Mutex::new(LruMap::new(limits.names));
        Self(Arc::new(SequenceParts { source: Arc::new(source), sequences, waiting: AtomicUsize::new(0) }))
    }

    /// Reserves `count` numbers in a sequence (above 0), all above `above`. Returns them as ranges by rising
    /// number.
    ///
    /// Callers that wait for one sequence share each step. Costs one round trip to Redis, and a store step if
    /// that has no numbers or does not answer. If the future is dropped, its numbers are lost.
    ///
    /// # Errors
    /// If neither the keeper has numbers nor the store answers; [`StoreError::Overloaded`] if too many calls
    /// wait. The call has reserved nothing then.
    pub async fn reserve(
        &self,
        name: &SequenceName,
        count: u32,
        above: Seq,
    ) -> Result<Vec<SeqRange>, StoreError> {
        let (began, waiting) = (Instant::now(), self.0.admit()?);
        let JoinedBatch { batch, before } = self.0.join(name, Need { count, above })?;
        let ranges = batch.await?;
        drop(waiting);
        self.0.source.counts.waited(began.elapsed());
        Ok(part(&ranges, before, count))
    }

    /// Returns upper bounds for the issued numbers, in `names`' order; see
    /// [`SequenceStore::max_seqs`](kith_store::SequenceStore::max_seqs).
    ///
    /// # Errors
    /// The errors of [`SequenceStore::max_seqs`](kith_store::SequenceStore::max_seqs).
    pub async fn max_seqs(&self, names: &[SequenceName]) -> Result<Vec<Seq>, StoreError> {
        self.0.source.store.max_seqs(names).await
    }
}

impl SequenceParts {
    fn admit(&self) -> Result<WaitingCall<'_>, StoreError> {
        let waiting = WaitingCall(&self.waiting);
        let before = self.waiting.fetch_add(1, Ordering::AcqRel);
        if before < self.source.limits.waiting { Ok(waiting) } else { Err(StoreError::Overloaded) }
    }

    fn join(&self, name: &SequenceName, need: Need) -> Result<JoinedBatch, StoreError> {
        let sequence = self.sequence(name)?;
        let most = self.source.limits.waiting_of_one;
        sequence.join(need, most, |before| self.source.batch(&sequence, before)).ok_or(StoreError::Overloaded)
    }

    /// A sequence, which the node remembers from now on. Sequences without waiting calls and fetches may be
    /// removed.
    fn sequence(&self, name: &SequenceName) -> Result<Arc<LocalSequence>, StoreError> {
        let now = self.source.clock.now();
        let mut sequences = self.sequences.lock();
        if let Some(known) = sequences.get(name, now) {
            return Ok(Arc::clone(known));
        }
        let new = Arc::new(LocalSequence::new(name.clone(), &self.source.limits));
        let is_idle = |known: &Arc<LocalSequence>| Arc::strong_count(known) == 1;
        if sequences.insert(name.clone(), now, Arc::clone(&new), is_idle) {
            Ok(new)
        } else {
            Err(StoreError::Overloaded)
        }
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for Sequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequences").field("keeper", &self.0.source.keeper).finish_non_exhaustive()
    }
}

/// One caller's numbers: `count` numbers, after earlier callers' numbers.
fn part(ranges: &[SeqRange], before: u32, count: u32) -> Vec<SeqRange> {
    let (mut skipped, mut missing) = (i64::from(before), i64::from(count));
    let mut part = Vec::with_capacity(1);
    for range in ranges {
        let (first, within) = (range.first + skipped, range.last - range.first + 1 - skipped);
        if within <= 0 {
            skipped = -within;
            continue;
        }
        let taken = within.min(missing);
        if taken > 0 {
            part.push(SeqRange { first, last: first + taken - 1 });
        }
        (skipped, missing) = (0, missing - taken);
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_of_a_batch_get_parts_of_their_own() {
        let range = |first, last| SeqRange { first, last };
        let ranges = [range(5, 9), range(21, 21), range(31, 40)];
        assert_eq!(part(&ranges, 0, 3), [range(5, 7)]);
        assert_eq!(part(&ranges, 3, 4), [range(8, 9), range(21, 21), range(31, 31)]);
        assert_eq!(part(&ranges, 5, 1), [range(21, 21)]);
        assert_eq!(part(&ranges, 6, 10), [range(31, 40)]);
        assert_eq!(part(&ranges, 7, 9), [range(32, 40)]);
    }
}
