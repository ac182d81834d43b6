//! Shared permits at the store for writes that wait for each other: writes to one group, which a store
//! decides one step at a time, with many callers in a step. However many callers wait in such a queue, only
//! one write is at the store, so one permit is enough.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use kith_cache::{AdmissionQueue, OwnedPermit};
use kith_store::GroupId;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// A permit; `None` in it: no writer in the queue can expect a permit.
type PermitCell = OnceCell<Option<OwnedPermit>>;

/// Permits that a queue's writes share.
#[derive(Debug)]
pub(super) struct QueuePermits {
    admission: Arc<AdmissionQueue>,
    queues: Mutex<HashMap<GroupId, Weak<PermitCell>>>,
}

impl QueuePermits {
    /// Shares these permits.
    pub(super) fn new(admission: Arc<AdmissionQueue>) -> Self {
        Self { admission, queues: Mutex::default() }
    }

    /// A share in this group's permit, which the first writer takes, and the last releases; `None`: there is
    /// none, or none can be expected.
    pub(super) async fn acquire(&self, group: GroupId) -> Option<SharedPermit<'_>> {
        let cell = {
            let mut queues = self.queues.lock();
            let known = queues.get(&group).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let cell = Arc::new(PermitCell::new());
                queues.insert(group, Arc::downgrade(&cell));
                cell
            })
        };
        let shared = SharedPermit { of: self, group, cell: Some(cell) };
        let cell = shared.cell.as_ref()?;
        cell.get_or_init(|| self.admission.acquire_owned()).await.is_some().then_some(())?;
        Some(shared)
    }
}

/// A share in a queue's permit, until dropped.
#[derive(Debug)]
pub(super) struct SharedPermit<'a> {
    of: &'a QueuePermits,
    group: GroupId,
    cell: Option<Arc<PermitCell>>,
}

impl Drop for SharedPermit<'_> {
    fn drop(&mut self) {
        let mut queues = self.of.queues.lock();
        drop(self.cell.take());
        if queues.get(&self.group).is_some_and(|cell| cell.strong_count() == 0) {
            queues.remove(&self.group);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::join_all;

    use super::*;
    use crate::sample::group_id as group;

    fn permits(most: usize) -> (Arc<AdmissionQueue>, QueuePermits) {
        let permits = Arc::new(AdmissionQueue::new(most, Duration::from_millis(500)));
        (Arc::clone(&permits), QueuePermits::new(permits))
    }

    #[tokio::test(start_paused = true)]
    async fn hundred_writes_of_a_group_leave_other_permits() {
        let (permits, queues) = permits(2);
        let held = join_all((0..100).map(|_| queues.acquire(group(1)))).await;
        assert!(held.iter().all(Option::is_some));
        assert!(permits.acquire().await.is_some(), "the second permit is free");
    }

    #[tokio::test(start_paused = true)]
    async fn last_writer_of_a_group_returns_the_permit() {
        let (permits, queues) = permits(1);
        let (first, second) = (queues.acquire(group(1)).await, queues.acquire(group(1)).await);
        drop(first);
        assert!(permits.acquire().await.is_none(), "the second one still has it");
        drop(second);
        assert!(permits.acquire().await.is_some());
        assert!(queues.queues.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn queue_without_a_permit_waits_as_its_first() {
        let (permits, queues) = permits(1);
        let _held = permits.acquire().await.unwrap();
        let begun = tokio::time::Instant::now();
        let refused = join_all((0..100).map(|_| queues.acquire(group(1)))).await;
        assert!(refused.iter().all(Option::is_none));
        assert_eq!(begun.elapsed(), Duration::from_millis(500));
        drop(refused);
        assert!(queues.queues.lock().is_empty());
    }
}
