//! Single flight: one load of a key, however many readers wait for it.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture, task::AtomicWaker};
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::Notify, time::timeout};

use crate::{CacheError, Loaded, Moment, Tier, Version, testing::rules};

/// The load of one key, which its readers share.
pub(crate) struct Flight<V> {
    pub(crate) id: u64,
    pub(crate) began: Moment,
    /// Count of flushes when it began.
    pub(crate) flush: u32,
    /// Floor of the key when it began: an older answer comes from a store that lags.
    pub(crate) floor: Version,
    pub(crate) batch: Arc<LoadBatch<V>>,
    /// The key's index in the batch outcomes.
    pub(crate) index: usize,
}

impl<V> Flight<V> {
    /// The outcome, once the batch has ended.
    pub(crate) fn outcome(&self) -> Option<&Outcome<V>> {
        self.batch.outcomes.get().and_then(|outcomes| outcomes.get(self.index))
    }
}

/// One call to the loader, for one key or many.
///
/// While only its leader waits, the leader polls it, which needs no extra task and wakes none. When another
/// reader joins, or the last reader leaves, a runtime task drives it: no reader depends on a caller that may
/// be gone, or not be polled.
pub(crate) struct LoadBatch<V> {
    load: Mutex<Option<BoxFuture<'static, Outcomes<V>>>>,
    /// Whether a task drives it.
    driven: AtomicBool,
    /// Time limit of such a task.
    bound: Duration,
    outcomes: OnceLock<Outcomes<V>>,
    leader: AtomicWaker,
    ended: Notify,
    waiters: AtomicUsize,
}

/// One outcome for each key in a batch, in the order of its pending loads.
pub(crate) type Outcomes<V> = Arc<[Outcome<V>]>;

/// One key's load result.
#[derive(Debug)]
pub(crate) struct Outcome<V> {
    pub(crate) result: Result<Loaded<V>, CacheError>,
    /// When the load began.
    pub(crate) read_at: Moment,
    /// The tier that answered.
    pub(crate) tier: Tier,
    /// Whether memory may keep it.
    pub(crate) cacheable: bool,
}

impl<V> Outcome<V> {
    pub(crate) const fn failed(error: CacheError, read_at: Moment) -> Self {
        Self { result: Err(error), read_at, tier: Tier::Store, cacheable: false }
    }
}

impl<V> Clone for Outcome<V> {
    fn clone(&self) -> Self {
        Self { result: self.result.clone(), ..*self }
    }
}

impl<V: Send + Sync + 'static> LoadBatch<V> {
    pub(crate) fn new(load: BoxFuture<'static, Outcomes<V>>, bound: Duration) -> Arc<Self> {
        Arc::new(Self {
            load: Mutex::new(Some(load)),
            driven: AtomicBool::new(false),
            bound,
            outcomes: OnceLock::new(),
            leader: AtomicWaker::new(),
            ended: Notify::new(),
            waiters: AtomicUsize::new(0),
        })
    }

    /// Polls the load. When the load can continue, it wakes the task that called this last.
    fn advance(&self, load: &mut Option<BoxFuture<'static, Outcomes<V>>>, context: &mut Context<'_>) {
        if let Some(Poll::Ready(outcomes)) = load.as_mut().map(|load| load.poll_unpin(context)) {
            *load = None;
            self.end(outcomes);
        }
    }

    /// Notifies the readers that joined. Does not wake the leader: [`Driver`] does so when it is dropped, and
    /// a leader that drove the batch itself is running. To wake it then would wake another thread of the
    /// runtime.
    fn end(&self, outcomes: Outcomes<V>) {
        self.outcomes.get_or_init(|| outcomes);
        self.ended.notify_waiters();
    }

    /// The step of the leader for each poll.
    fn lead(&self, context: &mut Context<'_>) -> Poll<Outcomes<V>> {
        self.leader.register(context.waker());
        // Checked under the lock: a driver that starts later takes the lock after this step, and is woken
        // from then on.
        if let Some(mut load) = self.load.try_lock()
            && !self.driven.load(Ordering::Acquire)
        {
            self.advance(&mut load, context);
        }
        self.outcomes.get().map_or(Poll::Pending, |outcomes| Poll::Ready(Arc::clone(outcomes)))
    }

    async fn ended(&self) -> Outcomes<V> {
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            if let Some(outcomes) = self.outcomes.get() {
                return Arc::clone(outcomes);
            }
            ended.await;
        }
    }

    /// Starts a task of the runtime that drives the load, if there is none. Without a runtime the load pauses
    /// until the next reader joins.
    fn hand_over(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.outcomes.get().is_none() && !self.driven.swap(true, Ordering::AcqRel) {
            runtime.spawn(Driver(Arc::clone(self)).drive());
        }
    }
}

/// The task that drives a batch.
struct Driver<V: Send + Sync + 'static>(Arc<LoadBatch<V>>);

impl<V: Send + Sync + 'static> Driver<V> {
    async fn drive(self) {
        let batch = &self.0;
        let end = poll_fn(|context| {
            // Held elsewhere only while the leader takes one step.
            batch.advance(&mut batch.load.lock(), context);
            if batch.outcomes.get().is_some() { Poll::Ready(()) } else { Poll::Pending }
        });
        if timeout(batch.bound, end).await.is_err() {
            // Its loads end without an outcome, and its readers get none.
            *batch.load.lock() = None;
            batch.end(Arc::new([]));
        }
    }
}

impl<V: Send + Sync + 'static> Drop for Driver<V> {
    fn drop(&mut self) {
        // No effect after the end. If the runtime was shut down, another reader drives the batch.
        self.0.driven.store(false, Ordering::Release);
        self.0.leader.wake();
    }
}

/// A reader that waits for a batch.
pub(crate) struct Waiter<V: Send + Sync + 'static> {
    batch: Arc<LoadBatch<V>>,
    leads: bool,
}

impl<V: Send + Sync + 'static> Waiter<V> {
    pub(crate) fn lead(batch: &Arc<LoadBatch<V>>) -> Self {
        batch.waiters.fetch_add(1, Ordering::AcqRel);
        Self { batch: Arc::clone(batch), leads: true }
    }

    pub(crate) fn join(batch: &Arc<LoadBatch<V>>) -> Self {
        batch.waiters.fetch_add(1, Ordering::AcqRel);
        batch.hand_over();
        Self { batch: Arc::clone(batch), leads: false }
    }

    pub(crate) fn waits_for(&self, batch: &Arc<LoadBatch<V>>) -> bool {
        Arc::ptr_eq(&self.batch, batch)
    }

    /// The outcomes of the batch, once it has ended.
    pub(crate) async fn outcomes(&self) -> Outcomes<V> {
        if self.leads { poll_fn(|context| self.batch.lead(context)).await } else { self.batch.ended().await }
    }
}

impl<V: Send + Sync + 'static> Drop for Waiter<V> {
    fn drop(&mut self) {
        let last = self.batch.waiters.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && rules::load_outlives_caller() {
            self.batch.hand_over();
        }
    }
}
