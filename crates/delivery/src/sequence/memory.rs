//! Blocks of sequence numbers in a single node's memory. The rules are the same as in the Lua scripts.

use async_trait::async_trait;
use kith_cache::{Clock, Moment, SystemClock, remote::SharedError};
use kith_store::{Seq, SeqRange, SequenceName};
use parking_lot::Mutex;

use super::{
    keeper::{FETCH_LEASE, FetchLease, Offer, SequenceKeeper, Take, Taken},
    lru_map::LruMap,
};

/// Issues numbers from blocks on one node. Keeps a bounded number of sequences: an unused sequence's block is
/// lost.
#[derive(Debug)]
pub struct MemorySequences {
    blocks: Mutex<LruMap<Blocks>>,
    clock: SystemClock,
}

/// A sequence's state, as in the scripts.
#[derive(Clone, Copy, Debug, Default)]
struct Blocks {
    at: Seq,
    last: Seq,
    next: Option<SeqRange>,
    /// When a fetch's lease ends.
    fetch: Option<Moment>,
}

impl MemorySequences {
    /// Creates it empty, for at most `most` sequences.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { blocks: Mutex::new(LruMap::new(most)), clock: SystemClock::new() }
    }
}

#[async_trait]
impl SequenceKeeper for MemorySequences {
    async fn take(&self, name: &SequenceName, take: Take) -> Result<Taken, SharedError> {
        let now = self.clock.now();
        Ok(self.change(name, now, |blocks| blocks.take(take, now)))
    }

    async fn offer(&self, name: &SequenceName, offer: Offer) -> Result<(), SharedError> {
        self.change(name, self.clock.now(), |blocks| blocks.add(offer));
        Ok(())
    }
}

impl MemorySequences {
    fn change<T>(&self, name: &SequenceName, now: Moment, change: impl FnOnce(&mut Blocks) -> T) -> T {
        let mut sequences = self.blocks.lock();
        if let Some(blocks) = sequences.get(name, now) {
            return change(blocks);
        }
        let mut blocks = Blocks::default();
        let changed = change(&mut blocks);
        sequences.insert(name.clone(), now, blocks, |_| true);
        changed
    }
}

impl Blocks {
    fn take(&mut self, Take { count, seen, low, .. }: Take, now: Moment) -> Taken {
        let numbers = if self.at < seen { None } else { self.issue(count) };
        let lease = (numbers.is_none() || self.left() < low).then(|| self.lease(now)).flatten();
        Taken { numbers, lease }
    }

    fn issue(&mut self, count: u32) -> Option<SeqRange> {
        if self.at == self.last {
            let next = self.next.take()?;
            (self.at, self.last) = (next.first - 1, next.last);
        }
        let first = self.at + 1;
        self.at = self.last.min(self.at + i64::from(count));
        Some(SeqRange { first, last: self.at })
    }

    fn left(&self) -> u64 {
        let of_next = self.next.map_or(0, |next| next.last - next.first + 1);
        (self.last - self.at + of_next).unsigned_abs()
    }

    /// A lease, unless another one runs.
    fn lease(&mut self, now: Moment) -> Option<FetchLease> {
        if self.fetch.is_some_and(|ends| now < ends) {
            return None;
        }
        let ends = now.after(FETCH_LEASE);
        self.fetch = Some(ends);
        Some(FetchLease(ends.get().cast_signed()))
    }

    fn add(&mut self, Offer { block, seen, lease }: Offer) {
        self.fetch = self.fetch.filter(|ends| ends.get().cast_signed() != lease.0);
        if self.at < seen {
            (self.at, self.last, self.next) = (block.first - 1, block.last, None);
        } else if block.first == self.last + 1 {
            let joined = self.next.take_if(|next| next.first == block.last + 1);
            self.last = joined.map_or(block.last, |next| next.last);
        } else if block.first > self.last {
            self.add_above(block);
        }
        // The block is below the present block: its numbers must not be issued after higher numbers.
    }

    fn add_above(&mut self, block: SeqRange) {
        match &mut self.next {
            None => self.next = Some(block),
            Some(next) if block.first == next.last + 1 => next.last = block.last,
            Some(next) if block.last == next.first - 1 => next.first = block.first,
            Some(_) => {}
        }
    }
}
