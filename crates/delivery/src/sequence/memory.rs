//! Blocks of sequence numbers in the memory of a single node. The rules are those of the Lua scripts.

use async_trait::async_trait;
use kith_cache::{Clock, SystemClock, remote::SharedError};
use kith_store::{Seq, SeqRange, SequenceName};
use parking_lot::Mutex;

use super::{
    keeper::{Offer, SequenceKeeper, TakeOutcome},
    lru_map::LruMap,
};

/// Issues the numbers of blocks on one node. Keeps a bounded number of sequences: the rest of the block of an unused
/// one is lost.
#[derive(Debug)]
pub struct MemorySequences {
    blocks: Mutex<LruMap<Blocks>>,
    clock: SystemClock,
}

/// The state of a sequence, as in the scripts.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    at: Seq,
    last: Seq,
    next: Option<SeqRange>,
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
    async fn take(&self, name: &SequenceName, count: u32, seen: Seq) -> Result<TakeOutcome, SharedError> {
        let now = self.clock.now();
        let mut blocks = self.blocks.lock();
        Ok(blocks.get(name, now).map_or(TakeOutcome::Unknown, |blocks| blocks.take(count, seen)))
    }

    async fn offer(&self, name: &SequenceName, offer: Offer) -> Result<(), SharedError> {
        let now = self.clock.now();
        let mut blocks = self.blocks.lock();
        if let Some(blocks) = blocks.get(name, now) {
            blocks.add(offer);
        } else {
            blocks.insert(name.clone(), now, Blocks::of(offer.block), |_| true);
        }
        Ok(())
    }
}

impl Blocks {
    const fn of(block: SeqRange) -> Self {
        Self { at: block.first - 1, last: block.last, next: None }
    }

    fn take(&mut self, count: u32, seen: Seq) -> TakeOutcome {
        if self.at < seen {
            return TakeOutcome::Unknown;
        }
        if self.at == self.last {
            let Some(next) = self.next else { return TakeOutcome::UsedUp };
            *self = Self::of(next);
        }
        let first = self.at + 1;
        self.at = self.last.min(self.at + i64::from(count));
        let range = SeqRange { first, last: self.at };
        let of_next = self.next.map_or(0, |next| next.last - next.first + 1);
        TakeOutcome::Numbers { range, left: (self.last - self.at + of_next).unsigned_abs() }
    }

    fn add(&mut self, Offer { block, seen }: Offer) {
        if self.at < seen {
            *self = Self::of(block);
            return;
        }
        match &mut self.next {
            Some(next) if block.first == next.last + 1 => next.last = block.last,
            Some(_) => {}
            None if block.first == self.last + 1 => self.last = block.last,
            None if block.first > self.last => self.next = Some(block),
            // Below the issued numbers: a gap.
            None => {}
        }
    }
}
