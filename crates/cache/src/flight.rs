use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use tokio::runtime::Handle;

use crate::{CacheError, Loaded, Moment, Version, guards};

/// The load of one key, as its readers see it.
pub(crate) struct Flight<V> {
    pub(crate) id: u64,
    /// Count of flushes when it began.
    pub(crate) flush: u32,
    /// Floor of the key when it began: an older answer is from a store that lags.
    pub(crate) floor: Version,
    pub(crate) ride: Arc<Ride<V>>,
    /// Place of the key in the outcomes of the ride.
    pub(crate) index: usize,
}

impl<V> Flight<V> {
    /// The outcome, once the ride has ended.
    pub(crate) fn outcome(&self) -> Option<&Outcome<V>> {
        self.ride.shared.peek().and_then(|outcomes| outcomes.get(self.index))
    }
}

/// One call to the loader, for one key or many. Moves while anybody waits for it, whoever that is.
pub(crate) struct Ride<V> {
    shared: Shared<BoxFuture<'static, Outcomes<V>>>,
    passengers: AtomicUsize,
}

/// One outcome for each key of a ride, in the order of its tickets.
pub(crate) type Outcomes<V> = Arc<[Outcome<V>]>;

/// What became of the load of one key.
#[derive(Debug)]
pub(crate) struct Outcome<V> {
    pub(crate) result: Result<Loaded<V>, CacheError>,
    /// What `weigh` says of the value.
    pub(crate) size: usize,
    /// When the load began.
    pub(crate) read_at: Moment,
}

impl<V> Outcome<V> {
    pub(crate) const fn failed(error: CacheError, read_at: Moment) -> Self {
        Self { result: Err(error), size: 0, read_at }
    }
}

impl<V> Clone for Outcome<V> {
    fn clone(&self) -> Self {
        Self { result: self.result.clone(), ..*self }
    }
}

impl<V> Ride<V> {
    pub(crate) fn new(load: BoxFuture<'static, Outcomes<V>>) -> Arc<Self> {
        Arc::new(Self { shared: load.shared(), passengers: AtomicUsize::new(0) })
    }
}

/// One who waits for a ride. When the last leaves before the end, the runtime takes over.
pub(crate) struct Passenger<V: Send + Sync + 'static>(Arc<Ride<V>>);

impl<V: Send + Sync + 'static> Passenger<V> {
    pub(crate) fn board(ride: &Arc<Ride<V>>) -> Self {
        ride.passengers.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(ride))
    }

    pub(crate) fn is_on(&self, ride: &Arc<Ride<V>>) -> bool {
        Arc::ptr_eq(&self.0, ride)
    }

    /// The end of the ride.
    pub(crate) fn end(&self) -> Shared<BoxFuture<'static, Outcomes<V>>> {
        self.0.shared.clone()
    }
}

impl<V: Send + Sync + 'static> Drop for Passenger<V> {
    fn drop(&mut self) {
        let last = self.0.passengers.fetch_sub(1, Ordering::AcqRel) == 1;
        if !last || self.0.shared.peek().is_some() || !guards::load_outlives_caller() {
            return;
        }
        // Without a runtime the load rests until the next reader of its key.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(self.0.shared.clone());
        }
    }
}
