//! Loads that wait for the loads of other nodes.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// From this many addresses on, those without a waiting task are dropped.
const SWEPT_FROM: usize = 1_024;

/// The waiting tasks by address. A wake may be lost: waiting tasks also check again after a while.
#[derive(Debug, Default)]
pub struct LeaseWaiters(Mutex<HashMap<String, Vec<Weak<Notify>>>>);

impl LeaseWaiters {
    /// The lease at this address has ended.
    pub fn wake(&self, address: &str) {
        let waiting = self.0.lock().remove(address).unwrap_or_default();
        waiting.iter().filter_map(Weak::upgrade).for_each(|waiting| waiting.notify_one());
    }

    /// Is notified when any of these addresses is woken from now on.
    pub(crate) fn watch<'a>(&self, addresses: impl Iterator<Item = &'a String>) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        let mut waiting = self.0.lock();
        if waiting.len() >= SWEPT_FROM {
            waiting.retain(|_, waiting| waiting.iter().any(|one| one.strong_count() > 0));
        }
        for address in addresses {
            waiting.entry(address.clone()).or_default().push(Arc::downgrade(&notify));
        }
        notify
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn wake_reaches_waiters_of_its_address_only() {
        let (waiters, here, there) = (LeaseWaiters::default(), ["a".to_owned()], ["b".to_owned()]);
        let (first, second) = (waiters.watch(here.iter()), waiters.watch(here.iter()));
        let other = waiters.watch(there.iter());
        waiters.wake("a");
        assert!(first.notified().now_or_never().is_some());
        assert!(second.notified().now_or_never().is_some());
        assert!(other.notified().now_or_never().is_none());
    }

    #[test]
    fn waiters_that_left_are_dropped() {
        let waiters = LeaseWaiters::default();
        for number in 0..10 * SWEPT_FROM {
            let address = [number.to_string()];
            drop(waiters.watch(address.iter()));
        }
        assert!(waiters.0.lock().len() <= SWEPT_FROM + 1);
    }
}
