//! The bound on calls in flight.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use kith_service::{metric, write::shed_counter::ShedCounter};

/// A place among the calls in flight, until dropped.
pub(super) type Slot = OwnedSemaphorePermit;
/// A place that may come within the wait; `None` when it did not.
pub(super) type LaterSlot = Pin<Box<dyn Future<Output = Option<Slot>> + Send>>;

/// Lets so many calls in at one time; as many again may wait a little; the rest are turned away at once.
#[derive(Debug)]
pub(super) struct Gate {
    slots: Arc<Semaphore>,
    most: usize,
    waiting: Arc<AtomicUsize>,
    wait: Duration,
    shed: ShedCounter,
}

/// How a call comes in.
pub(super) enum Entry {
    /// It is in.
    Now(Slot),
    /// It may wait.
    Later(LaterSlot),
    /// It is turned away.
    Full,
}

impl Gate {
    pub(super) fn new(most: usize, wait: Duration) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        let shed = ShedCounter::of(&metric::RPC_SHED);
        Self { slots: Arc::new(Semaphore::new(most)), most, waiting: Arc::default(), wait, shed }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.most - self.slots.available_permits()
    }

    pub(super) const fn limit(&self) -> usize {
        self.most
    }

    pub(super) fn shed(&self) -> u64 {
        self.shed.number()
    }

    pub(super) fn enter(&self) -> Entry {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Entry::Now(slot);
        }
        let place = QueuePlace::take(&self.waiting);
        if place.before >= self.most || self.wait.is_zero() {
            self.shed.increment();
            return Entry::Full;
        }
        let (slots, wait, shed) = (Arc::clone(&self.slots), self.wait, self.shed.clone());
        Entry::Later(Box::pin(async move {
            let slot = timeout(wait, slots.acquire_owned()).await.ok().and_then(Result::ok);
            drop(place);
            if slot.is_none() {
                shed.increment();
            }
            slot
        }))
    }
}

/// A place in the queue, until dropped: also by a caller that goes away.
struct QueuePlace {
    count: Arc<AtomicUsize>,
    before: usize,
}

impl QueuePlace {
    fn take(count: &Arc<AtomicUsize>) -> Self {
        let before = count.fetch_add(1, Ordering::Relaxed);
        Self { count: Arc::clone(count), before }
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(gate: &Gate) -> Slot {
        match gate.enter() {
            Entry::Now(slot) => slot,
            Entry::Later(_) | Entry::Full => panic!("there is room"),
        }
    }

    fn later(gate: &Gate) -> LaterSlot {
        match gate.enter() {
            Entry::Later(slot) => slot,
            Entry::Now(_) | Entry::Full => panic!("it should wait"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waits_comes_in_when_another_ends() {
        let gate = Gate::new(1, Duration::from_millis(100));
        let first = now(&gate);
        let second = later(&gate);
        drop(first);
        assert!(second.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waited_long_enough_is_turned_away() {
        let gate = Gate::new(1, Duration::from_millis(100));
        let _first = now(&gate);
        assert!(later(&gate).await.is_none());
        assert_eq!((gate.in_flight(), gate.shed()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn queue_is_bounded_and_leaving_makes_room() {
        let gate = Gate::new(1, Duration::from_millis(100));
        let _first = now(&gate);
        let waits = later(&gate);
        assert!(matches!(gate.enter(), Entry::Full));
        drop(waits);
        drop(later(&gate));
    }
}
