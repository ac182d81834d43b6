//! Shared turns at the store for writes that wait for each other: those of one group, which a store decides one step at
//! a time, with many callers in a step. However many callers wait in such a queue, only one write is at the store, so
//! one turn is enough.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use kith_cache::{AdmissionQueue, OwnedPermit};
use kith_store::GroupId;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// `None` in it: no turn can be expected, for no writer of the queue.
type Cell = OnceCell<Option<OwnedPermit>>;

/// Turns that the writes of a queue share.
#[derive(Debug)]
pub(super) struct QueueTurns {
    turns: Arc<AdmissionQueue>,
    queues: Mutex<HashMap<GroupId, Weak<Cell>>>,
}

impl QueueTurns {
    /// Shares these turns.
    pub(super) fn new(turns: Arc<AdmissionQueue>) -> Self {
        Self { turns, queues: Mutex::default() }
    }

    /// A part of the turn of this group, which the first writer takes, and the last one releases; `None`: there is
    /// none, or none can be expected.
    pub(super) async fn take(&self, group: GroupId) -> Option<SharedTurn<'_>> {
        let cell = {
            let mut queues = self.queues.lock();
            let known = queues.get(&group).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let cell = Arc::new(Cell::new());
                queues.insert(group, Arc::downgrade(&cell));
                cell
            })
        };
        let shared = SharedTurn { of: self, group, cell: Some(cell) };
        let cell = shared.cell.as_ref()?;
        cell.get_or_init(|| self.turns.take_owned()).await.is_some().then_some(())?;
        Some(shared)
    }
}

/// A part of the turn of a queue, until dropped.
#[derive(Debug)]
pub(super) struct SharedTurn<'a> {
    of: &'a QueueTurns,
    group: GroupId,
    cell: Option<Arc<Cell>>,
}

impl Drop for SharedTurn<'_> {
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

    fn group(id: i64) -> GroupId {
        GroupId::new(id).unwrap()
    }

    fn turns(most: usize) -> (Arc<AdmissionQueue>, QueueTurns) {
        let turns = Arc::new(AdmissionQueue::new(most, Duration::from_millis(500)));
        (Arc::clone(&turns), QueueTurns::new(turns))
    }

    #[tokio::test(start_paused = true)]
    async fn hundred_writes_of_a_group_leave_other_turns() {
        let (turns, queues) = turns(2);
        let held = join_all((0..100).map(|_| queues.take(group(1)))).await;
        assert!(held.iter().all(Option::is_some));
        assert!(turns.take().await.is_some(), "the second turn is free");
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_one_of_a_group_gives_the_turn_back() {
        let (turns, queues) = turns(1);
        let (first, second) = (queues.take(group(1)).await, queues.take(group(1)).await);
        drop(first);
        assert!(turns.take().await.is_none(), "the second one still has it");
        drop(second);
        assert!(turns.take().await.is_some());
        assert!(queues.queues.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn queue_without_a_turn_waits_as_its_first() {
        let (turns, queues) = turns(1);
        let _held = turns.take().await.unwrap();
        let begun = tokio::time::Instant::now();
        let refused = join_all((0..100).map(|_| queues.take(group(1)))).await;
        assert!(refused.iter().all(Option::is_none));
        assert_eq!(begun.elapsed(), Duration::from_millis(500));
        drop(refused);
        assert!(queues.queues.lock().is_empty());
    }
}
