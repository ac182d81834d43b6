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

/// A permit to be in flight, until dropped.
pub(super) type Slot = OwnedSemaphorePermit;
/// A slot that a queued call waits for; `None` if none became free in time.
pub(super) type PendingSlot = Pin<Box<dyn Future<Output = Option<Slot>> + Send>>;

/// Limits the calls in flight. An equal number may wait for a short time; further calls are refused at once.
#[derive(Debug)]
pub(super) struct CallGate {
    slots: Arc<Semaphore>,
    most: usize,
    waiting: Arc<AtomicUsize>,
    wait: Duration,
    shed: ShedCounter,
}

/// The answer to a call that asks for a slot.
pub(super) enum SlotRequest {
    /// The call may begin.
    Granted(Slot),
    /// The call waits for a slot.
    Queued(PendingSlot),
    /// Too many calls wait already.
    Refused,
}

impl CallGate {
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

    pub(super) fn request_slot(&self) -> SlotRequest {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return SlotRequest::Granted(slot);
        }
        let place = QueuePlace::take(&self.waiting);
        if place.before >= self.most || self.wait.is_zero() {
            self.shed.increment();
            return SlotRequest::Refused;
        }
        let (slots, wait, shed) = (Arc::clone(&self.slots), self.wait, self.shed.clone());
        SlotRequest::Queued(Box::pin(async move {
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

    fn now(gate: &CallGate) -> Slot {
        match gate.request_slot() {
            SlotRequest::Granted(slot) => slot,
            SlotRequest::Queued(_) | SlotRequest::Refused => panic!("there is room"),
        }
    }

    fn later(gate: &CallGate) -> PendingSlot {
        match gate.request_slot() {
            SlotRequest::Queued(slot) => slot,
            SlotRequest::Granted(_) | SlotRequest::Refused => panic!("it should wait"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_call_starts_when_another_ends() {
        let gate = CallGate::new(1, Duration::from_millis(100));
        let first = now(&gate);
        let second = later(&gate);
        drop(first);
        assert!(second.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn call_that_waited_too_long_is_refused() {
        let gate = CallGate::new(1, Duration::from_millis(100));
        let _first = now(&gate);
        assert!(later(&gate).await.is_none());
        assert_eq!((gate.in_flight(), gate.shed()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn queue_is_bounded_and_leaving_makes_room() {
        let gate = CallGate::new(1, Duration::from_millis(100));
        let _first = now(&gate);
        let waits = later(&gate);
        assert!(matches!(gate.request_slot(), SlotRequest::Refused));
        drop(waits);
        drop(later(&gate));
    }
}
