//! Single flight: at most one piece of work for a key is in progress. `Flights::join` shares only work that
//! has not begun, so that no caller gets data from before its call.

use std::{
    collections::HashMap,
    fmt,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use parking_lot::Mutex;

/// The result of one piece of work, for all waiting callers. The work continues as long as any caller waits.
pub(super) type Flight<T> = Shared<BoxFuture<'static, T>>;

/// Work by keys: for one key at most one piece is in progress, and at most one more waits.
pub(super) struct Flights<K, T>(Arc<Mutex<Running<K, T>>>);

struct Running<K, T> {
    last_id: u64,
    flights: HashMap<K, RunningFlight<T>>,
}

/// The last flight of a key.
struct RunningFlight<T> {
    id: u64,
    began: Arc<AtomicBool>,
    flight: WeakShared<BoxFuture<'static, T>>,
}

/// Removes a flight when it has ended, or no caller waits for it any more.
struct RemoveOnDrop<K: Copy + Eq + Hash, T> {
    running: Arc<Mutex<Running<K, T>>>,
    key: K,
    id: u64,
}

impl<K, T> Flights<K, T>
where
    K: Copy + Eq + Hash + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Running { last_id: 0, flights: HashMap::new() })))
    }

    /// Does this work, or waits for the same work that another caller asked for. Invariant: the work begins
    /// after this call. A flight that has begun may have read data that is old now, so a new flight is made,
    /// which begins when the earlier flight has ended.
    pub(super) fn join(&self, key: K, work: impl Future<Output = T> + Send + 'static) -> Flight<T> {
        let mut running = self.0.lock();
        let before = running.flights.get(&key).and_then(RunningFlight::upgrade);
        match before {
            Some((flight, false)) => flight,
            before => self.begin(&mut running, key, before.map(|(flight, _)| flight), work),
        }
    }

    /// Does this work at once, as the flight of its key.
    pub(super) fn lead(&self, key: K, work: impl Future<Output = T> + Send + 'static) -> Flight<T> {
        self.begin(&mut self.0.lock(), key, None, work)
    }

    /// The last flight of the key, if it has not ended.
    pub(super) fn running(&self, key: K) -> Option<Flight<T>> {
        self.0.lock().flights.get(&key).and_then(RunningFlight::upgrade).map(|(flight, _)| flight)
    }

    fn begin(
        &self,
        running: &mut Running<K, T>,
        key: K,
        before: Option<Flight<T>>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Flight<T> {
        running.last_id += 1;
        let (id, began) = (running.last_id, Arc::new(AtomicBool::new(false)));
        let guard = RemoveOnDrop { running: Arc::clone(&self.0), key, id };
        let begins = Arc::clone(&began);
        let flight = async move {
            let _guard = guard;
            if let Some(before) = before {
                before.await;
            }
            begins.store(true, Ordering::Release);
            work.await
        };
        let flight = flight.boxed().shared();
        if let Some(weak) = flight.downgrade() {
            running.flights.insert(key, RunningFlight { id, began, flight: weak });
        }
        flight
    }
}

impl<T: Clone> RunningFlight<T> {
    /// The flight, and whether it has begun; `None`: it has ended, or no caller waits for it.
    fn upgrade(&self) -> Option<(Flight<T>, bool)> {
        Some((self.flight.upgrade()?, self.began.load(Ordering::Acquire)))
    }
}

impl<K: Copy + Eq + Hash, T> Drop for RemoveOnDrop<K, T> {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        if running.flights.get(&self.key).is_some_and(|entry| entry.id == self.id) {
            running.flights.remove(&self.key);
        }
    }
}

impl<K, T> fmt::Debug for Flights<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights").field("running", &self.0.lock().flights.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use futures::{channel::oneshot, poll};

    use super::*;

    #[derive(Debug, Default)]
    struct Work(AtomicU32);

    impl Work {
        /// Returns how many pieces of work had begun, this piece included, once `gate` is open.
        fn behind(self: &Arc<Self>, gate: oneshot::Receiver<()>) -> impl Future<Output = u32> + use<> {
            let work = Arc::clone(self);
            async move {
                let number = work.0.fetch_add(1, Ordering::AcqRel) + 1;
                gate.await.ok();
                number
            }
        }
    }

    fn is_empty(flights: &Flights<i32, u32>) -> bool {
        flights.0.lock().flights.is_empty()
    }

    #[tokio::test]
    async fn callers_before_the_begin_share_one_flight() {
        let (flights, work) = (Flights::new(), Arc::new(Work::default()));
        let (open, gate) = oneshot::channel();
        let first = flights.join(7, work.behind(gate));
        let second = flights.join(7, work.behind(oneshot::channel().1));
        open.send(()).unwrap();
        assert_eq!((second.await, first.await), (1, 1));
        assert!(is_empty(&flights));
    }

    #[tokio::test]
    async fn caller_after_the_begin_gets_a_later_flight() {
        let (flights, work) = (Flights::new(), Arc::new(Work::default()));
        let (open, gate) = oneshot::channel();
        let mut first = flights.join(7, work.behind(gate));
        assert!(poll!(&mut first).is_pending());
        let mut second = flights.join(7, work.behind(oneshot::channel().1));
        let third = flights.join(7, work.behind(oneshot::channel().1));
        assert!(poll!(&mut second).is_pending());
        assert_eq!(work.0.load(Ordering::Acquire), 1, "one at a time");
        open.send(()).unwrap();
        assert_eq!((second.await, third.await, first.await), (2, 2, 1));
        assert!(is_empty(&flights));
    }

    #[tokio::test]
    async fn flight_ends_with_its_last_caller() {
        let (flights, work) = (Flights::new(), Arc::new(Work::default()));
        let (open, gate) = oneshot::channel();
        let mut first = flights.join(7, work.behind(gate));
        assert!(poll!(&mut first).is_pending());
        let other = flights.running(7).unwrap();
        drop(first);
        open.send(()).unwrap();
        assert_eq!(other.await, 1, "another one waits");
        let (_open, gate) = oneshot::channel();
        let mut last = flights.lead(7, work.behind(gate));
        assert!(poll!(&mut last).is_pending());
        drop(last);
        assert!(is_empty(&flights) && flights.running(7).is_none());
    }
}
