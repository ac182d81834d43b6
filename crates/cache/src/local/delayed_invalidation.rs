//! Writes of unknown outcome may be applied late: their records are invalidated repeatedly.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::OwnedSemaphorePermit, time::Instant};

use super::inner::CacheState;
use crate::{CacheError, Key, testing::rules};

/// How long after a write with unknown outcome its keys are invalidated again. If the write is applied later
/// than that, the node's memory has to be flushed.
pub const LATE_WRITES_FOR: Duration = Duration::from_secs(90);

/// Times after the write at which its keys are invalidated again.
const DELAYS: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(30), LATE_WRITES_FOR];
/// How often memory is flushed instead of repeated invalidations, for writes beyond the limit.
const FLUSH_PERIOD: Duration = Duration::from_secs(5);

/// Invalidates these keys after 5, 30 and 90 s, or, with too many such writes waiting, the whole namespace.
/// Does nothing without a runtime, nor after the cache is gone.
pub(crate) fn schedule_repeats<K: Key, V: Send + Sync + 'static>(
    inner: &Arc<CacheState<K, V>>,
    keys: Vec<K>,
) {
    let Ok(runtime) = Handle::try_current() else { return };
    if !rules::late_landing() {
        return;
    }
    let weak = Arc::downgrade(inner);
    if let Ok(permit) = Arc::clone(&inner.pending_repeats.permits).try_acquire_owned() {
        runtime.spawn(repeat_invalidations(weak, keys, permit));
    } else if inner.pending_repeats.flush_until.lock().replace(Instant::now() + DELAYS[2]).is_none() {
        runtime.spawn(repeat_flushes(weak, Arc::clone(&inner.pending_repeats.flush_until)));
    }
}

/// Logs that a change was not published to other nodes.
pub(crate) fn warn_unpublished<K, V>(inner: &CacheState<K, V>, error: &CacheError) {
    tracing::warn!(
        namespace = inner.policy.name,
        error = error as &dyn std::error::Error,
        "a change could not be published to the other nodes"
    );
}

async fn repeat_invalidations<K: Key, V: Send + Sync + 'static>(
    inner: Weak<CacheState<K, V>>,
    keys: Vec<K>,
    _permit: OwnedSemaphorePermit,
) {
    let began = Instant::now();
    for after in DELAYS {
        tokio::time::sleep_until(began + after).await;
        let Some(inner) = inner.upgrade() else { return };
        let notices = inner.invalidate_uncertain_here(keys.iter());
        if let Err(error) = inner.publish(&notices).await {
            warn_unpublished(&inner, &error);
        }
    }
}

async fn repeat_flushes<K: Key, V: Send + Sync + 'static>(
    inner: Weak<CacheState<K, V>>,
    until: Arc<Mutex<Option<Instant>>>,
) {
    loop {
        tokio::time::sleep(FLUSH_PERIOD).await;
        let Some(inner) = inner.upgrade() else { return };
        inner.memory.flush();
        let mut until = until.lock();
        if until.is_none_or(|until| Instant::now() >= until) {
            *until = None;
            return;
        }
    }
}
