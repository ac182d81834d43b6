//! One sequence's state on a node: callers that arrive before a batch begins share it, at most one batch
//! runs, and at most one block is fetched at a time.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, Shared, WeakShared};
use kith_cache::Moment;
use kith_store::{Seq, SeqRange, SequenceName, StoreError};
use parking_lot::Mutex;

use super::{keeper::FetchLease, limits::SequenceLimits};

/// A batch's numbers, by rising number, for all its callers.
pub(super) type Batch = Shared<BoxFuture<'static, Result<Arc<[SeqRange]>, StoreError>>>;
/// A block on its way from the store to the keeper.
pub(super) type Fetch = Shared<BoxFuture<'static, Result<(), StoreError>>>;

/// A block that lasts shorter is followed by a larger block.
const LASTS_SHORT: Duration = Duration::from_millis(100);
/// A block that lasts longer is followed by a smaller block.
const LASTS_LONG: Duration = Duration::from_secs(10);
/// How often a node renews the time for which the keeper keeps a sequence that is in use.
const RENEWED_EVERY: Duration = Duration::from_secs(60 * 60);

/// A sequence's state on a node.
#[derive(Debug)]
pub(super) struct LocalSequence {
    pub(super) name: SequenceName,
    state: Mutex<LocalSequenceState>,
}

#[derive(Debug)]
struct LocalSequenceState {
    /// The highest number that this node was given. Invariant: every later take returns numbers above it.
    seen: Seq,
    /// How many numbers the last block has.
    size: u32,
    /// When its fetch began.
    fetched: Option<Moment>,
    /// The batch that has not begun. Invariant: there is at most one such batch.
    open: Option<OpenBatch>,
    last: Option<WeakResult<Arc<[SeqRange]>>>,
    fetch: Option<WeakResult<()>>,
    /// A failed fetch's lease: the next fetch needs no other.
    unused_lease: Option<FetchLease>,
    /// When this node renewed the sequence in the keeper.
    renewed: Option<Moment>,
}

/// Does not keep the work alive.
type WeakResult<T> = WeakShared<BoxFuture<'static, Result<T, StoreError>>>;

/// A batch that callers can join.
#[derive(Debug)]
struct OpenBatch {
    need: Need,
    batch: Option<WeakResult<Arc<[SeqRange]>>>,
}

/// A batch's requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) count: u32,
    pub(super) above: Seq,
}

/// One caller's numbers within a batch.
pub(super) struct JoinedBatch {
    pub(super) batch: Batch,
    /// How many numbers earlier callers have.
    pub(super) before: u32,
}

impl LocalSequence {
    pub(super) fn new(name: SequenceName, limits: &SequenceLimits) -> Self {
        let state = LocalSequenceState {
            seen: 0,
            size: limits.block,
            fetched: None,
            open: None,
            last: None,
            fetch: None,
            unused_lease: None,
            renewed: None,
        };
        Self { name, state: Mutex::new(state) }
    }

    /// Adds a caller to the batch that has not begun, or begins a batch with `make`, which is given the batch
    /// before. `None`: too many numbers wait.
    pub(super) fn join(
        &self,
        need: Need,
        most: u32,
        make: impl FnOnce(Option<Batch>) -> Batch,
    ) -> Option<JoinedBatch> {
        let mut state = self.state.lock();
        let open = state.open.as_mut().and_then(|open| Some((open.batch.as_ref()?.upgrade()?, open)));
        if let Some((batch, open)) = open {
            let before = open.need.count;
            let count = before.checked_add(need.count).filter(|count| *count <= most)?;
            open.need = Need { count, above: need.above.max(open.need.above) };
            return Some(JoinedBatch { batch, before });
        }
        let batch = make(state.last.as_ref().and_then(WeakShared::upgrade));
        state.last = batch.downgrade();
        state.open = Some(OpenBatch { need, batch: batch.downgrade() });
        Some(JoinedBatch { batch, before: 0 })
    }

    /// The batch begins: no caller can join it any more.
    pub(super) fn close(&self) -> Option<Need> {
        self.state.lock().open.take().map(|open| open.need)
    }

    pub(super) fn seen(&self) -> Seq {
        self.state.lock().seen
    }

    pub(super) fn record_seen(&self, seq: Seq) {
        let mut state = self.state.lock();
        state.seen = state.seen.max(seq);
    }

    /// Whether the next take renews the sequence in the keeper.
    pub(super) fn is_renewal_due(&self, now: Moment) -> bool {
        self.state.lock().renewed.is_none_or(|renewed| now.since(renewed) >= RENEWED_EVERY)
    }

    /// The keeper has answered a take that renewed it.
    pub(super) fn renewed(&self, at: Moment) {
        self.state.lock().renewed = Some(at);
    }

    /// A block is to be fetched when fewer numbers than this are left: half the last block.
    pub(super) fn low(&self) -> u64 {
        u64::from(self.state.lock().size / 2)
    }

    /// The fetch that runs on this node, or a new one under a lease, and whether it is new. `None`: the node
    /// has no lease.
    pub(super) fn fetch(
        &self,
        lease: Option<FetchLease>,
        make: impl FnOnce(FetchLease) -> Fetch,
    ) -> Option<(Fetch, bool)> {
        let mut state = self.state.lock();
        if let Some(running) = state.fetch.as_ref().and_then(WeakShared::upgrade)
            && running.peek().is_none()
        {
            return Some((running, false));
        }
        let fetch = make(lease.or_else(|| state.unused_lease.take())?);
        state.fetch = fetch.downgrade();
        Some((fetch, true))
    }

    /// Keeps a failed fetch's lease.
    pub(super) fn keep_lease(&self, lease: FetchLease) {
        self.state.lock().unused_lease = Some(lease);
    }

    /// How many numbers the block has that is fetched now.
    pub(super) fn next_size(&self, now: Moment, limits: &SequenceLimits) -> u32 {
        let mut state = self.state.lock();
        if let Some(before) = state.fetched.replace(now) {
            let lasted = now.since(before);
            if lasted < LASTS_SHORT {
                state.size = state.size.saturating_mul(2).min(limits.block_max);
            } else if lasted > LASTS_LONG {
                state.size = (state.size / 2).max(limits.block);
            }
        }
        state.size
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, future::ready};

    use super::*;

    fn sequence(limits: &SequenceLimits) -> LocalSequence {
        LocalSequence::new("a".parse().unwrap(), limits)
    }

    fn batch(_: Option<Batch>) -> Batch {
        ready(Ok(Vec::new().into())).boxed().shared()
    }

    fn need(count: u32, above: Seq) -> Need {
        Need { count, above }
    }

    #[test]
    fn callers_before_the_begin_are_one_batch() {
        let sequence = sequence(&SequenceLimits::default());
        let first = sequence.join(need(3, 0), 100, batch).unwrap();
        let second = sequence.join(need(4, 50), 100, |_| unreachable!()).unwrap();
        assert_eq!((first.before, second.before), (0, 3));
        assert_eq!(sequence.close(), Some(need(7, 50)));
        let third = sequence.join(need(1, 0), 100, batch).unwrap();
        assert_eq!((third.before, sequence.close()), (0, Some(need(1, 0))));
    }

    #[test]
    fn batch_whose_callers_have_gone_is_not_joined() {
        let sequence = sequence(&SequenceLimits::default());
        drop(sequence.join(need(3, 0), 100, batch));
        let _next = sequence.join(need(1, 0), 100, batch).unwrap();
        assert_eq!(sequence.close(), Some(need(1, 0)));
    }

    #[test]
    fn numbers_that_wait_are_bounded() {
        let sequence = sequence(&SequenceLimits::default());
        let _first = sequence.join(need(60, 0), 100, batch).unwrap();
        assert!(sequence.join(need(41, 0), 100, batch).is_none());
        assert!(sequence.join(need(40, 0), 100, batch).is_some());
    }

    #[test]
    fn sequence_in_use_is_renewed_every_hour() {
        let sequence = sequence(&SequenceLimits::default());
        let is_due = |minutes: u64| sequence.is_renewal_due(Moment::new(minutes * 60_000));
        assert!(is_due(5));
        sequence.renewed(Moment::new(5 * 60_000));
        assert_eq!([6, 64, 65].map(is_due), [false, false, true]);
    }

    #[test]
    fn blocks_grow_while_they_last_short() {
        let limits = SequenceLimits { block: 100, block_max: 350, ..SequenceLimits::default() };
        let sequence = sequence(&limits);
        let sizes = [0, 50, 149, 248, 348, 10_348, 20_349, 40_000, 60_000]
            .map(|ms| sequence.next_size(Moment::new(ms), &limits));
        assert_eq!(sizes, [100, 200, 350, 350, 350, 350, 175, 100, 100]);
    }
}
