//! Permits at the store: a limited number at once, and no more waiters than can expect a permit in time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};

/// One permit contributes one part in this many to the mean.
const WEIGHT: u64 = 16;
/// A caller waits only if its expected wait is at most the longest wait divided by this: the expected wait is
/// a mean, and a caller that waits in vain loses all of its wait.
const MARGIN: u128 = 2;

/// A number of concurrent permits. Work that cannot expect a permit within the wait is refused when it
/// arrives, not when its wait is over: the caller can go elsewhere at once, and those who wait do not wait
/// long. Permits are given in order of arrival.
#[derive(Debug)]
pub struct AdmissionQueue {
    permits: Arc<Semaphore>,
    most: usize,
    wait: Duration,
    waiting: AtomicUsize,
    /// Mean time of a permit in nanoseconds; 0 before the first has ended.
    mean: AtomicU64,
}

/// A permit, until dropped.
#[derive(Debug)]
pub struct Permit<'a> {
    queue: &'a AdmissionQueue,
    began: Instant,
    _permit: SemaphorePermit<'a>,
}

/// A permit that borrows nothing, until dropped.
#[derive(Debug)]
pub struct OwnedPermit(
    #[expect(dead_code, reason = "it is held, and given back when dropped")] OwnedSemaphorePermit,
);

impl AdmissionQueue {
    /// `most` permits at once; a caller waits for at most `wait`.
    #[must_use]
    pub fn new(most: usize, wait: Duration) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        let (waiting, mean) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { permits: Arc::new(Semaphore::new(most)), most, wait, waiting, mean }
    }

    /// Returns a permit, at once or within the wait. `None`: there is none, or none can be expected. If the
    /// future is dropped, it leaves the queue.
    pub async fn acquire(&self) -> Option<Permit<'_>> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Some(self.begin(permit));
        }
        self.wait_in_queue(self.permits.acquire()).await.map(|permit| self.begin(permit))
    }

    /// Like [`Self::acquire`], for work that borrows nothing. Its duration does not count for the mean,
    /// because it does not show how long a permit takes.
    pub async fn acquire_owned(&self) -> Option<OwnedPermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Some(OwnedPermit(permit));
        }
        self.wait_in_queue(Arc::clone(&self.permits).acquire_owned()).await.map(OwnedPermit)
    }

    /// Waits for a permit, if a permit can be expected within the wait.
    async fn wait_in_queue<P, E>(&self, permit: impl Future<Output = Result<P, E>>) -> Option<P> {
        let position = QueuePosition::enter(&self.waiting);
        if self.expected_wait(position.ahead) > self.wait.as_nanos() / MARGIN {
            return None;
        }
        match timeout(self.wait, permit).await {
            Ok(permit) => permit.ok(),
            Err(_) => {
                self.record_timeout(position.ahead);
                None
            }
        }
    }

    fn begin<'a>(&'a self, permit: SemaphorePermit<'a>) -> Permit<'a> {
        Permit { queue: self, began: Instant::now(), _permit: permit }
    }

    /// The expected wait behind this many waiters, in nanoseconds.
    fn expected_wait(&self, ahead: usize) -> u128 {
        let permits = u128::try_from(ahead).unwrap_or(u128::MAX).saturating_add(1);
        let mean = u128::from(self.mean.load(Ordering::Relaxed));
        permits.saturating_mul(mean) / u128::try_from(self.most.max(1)).unwrap_or(1)
    }

    /// Raises the mean after a wait in vain: a store that hangs ends no permit, so that no duration would
    /// show it.
    fn record_timeout(&self, ahead: usize) {
        let most = u128::try_from(self.most).unwrap_or(u128::MAX);
        let behind = u128::try_from(ahead).unwrap_or(u128::MAX).saturating_add(1);
        let least = self.wait.as_nanos().saturating_mul(most) / behind;
        self.mean.fetch_max(u64::try_from(least).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn record_duration(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mean = self.mean.load(Ordering::Relaxed);
        let next = if mean == 0 { took } else { mean - mean / WEIGHT + took / WEIGHT };
        // If two permits end at the same time, one duration may be lost: the value is a mean.
        self.mean.store(next, Ordering::Relaxed);
    }
}

impl Permit<'_> {
    /// The store has answered, or was given up; returns the duration. A permit that is dropped without this,
    /// because no caller waits for the answer any more, does not count for the mean.
    pub fn finish(self) -> Duration {
        let took = self.began.elapsed();
        self.queue.record_duration(took);
        took
    }
}

/// A position in the queue, until dropped.
struct QueuePosition<'a> {
    count: &'a AtomicUsize,
    /// Waiters that entered the queue earlier.
    ahead: usize,
}

impl<'a> QueuePosition<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        Self { count, ahead: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, future::join_all};

    use super::*;

    const WAIT: Duration = Duration::from_millis(500);

    /// Two at once, each of which takes so long.
    fn taking(time: Duration) -> AdmissionQueue {
        let permits = AdmissionQueue::new(2, WAIT);
        permits.record_duration(time);
        permits
    }

    #[tokio::test(start_paused = true)]
    async fn hopeless_waiter_is_refused_at_once() {
        let permits = taking(Duration::from_millis(100));
        let _held = (permits.acquire().await.unwrap(), permits.acquire().await.unwrap());
        let mut queue: Vec<_> = (0..10).map(|_| Box::pin(permits.acquire())).collect();
        let refused = queue.iter_mut().filter_map(|acquire| acquire.as_mut().now_or_never()).count();
        // Five would wait 250 ms, half of what they may.
        assert_eq!(refused, 5);
        drop(queue);
        assert!(permits.acquire().now_or_never().is_none(), "a waiter that left makes room");
    }

    #[tokio::test(start_paused = true)]
    async fn burst_on_fast_store_waits_and_is_served() {
        let permits = &taking(Duration::from_micros(100));
        let loads = (0..1_000).map(|_| async move {
            let permit = permits.acquire().await?;
            tokio::task::yield_now().await;
            Some(permit.finish())
        });
        assert!(join_all(loads).await.iter().all(Option::is_some));
    }

    #[tokio::test(start_paused = true)]
    async fn loads_of_hung_store_are_refused_at_once() {
        let permits = taking(Duration::from_micros(100));
        let _held = (permits.acquire().await.unwrap(), permits.acquire().await.unwrap());
        let waited = join_all((0..100).map(|_| permits.acquire())).await;
        assert!(waited.iter().all(Option::is_none));
        let mut queue: Vec<_> = (0..100).map(|_| Box::pin(permits.acquire())).collect();
        let refused = queue.iter_mut().filter_map(|acquire| acquire.as_mut().now_or_never()).count();
        assert_eq!(refused, 100, "the one that waited first has shown that even it waited in vain");
    }

    #[tokio::test(start_paused = true)]
    async fn free_permit_is_given_whatever_others_took() {
        let permits = taking(Duration::from_secs(3_600));
        assert!(permits.acquire().now_or_never().flatten().is_some());
    }
}
