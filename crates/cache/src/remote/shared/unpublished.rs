//! Changes that could not be sent to the shared server yet.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::recent_publishes::RecentPublishes;
use crate::{Invalidation, testing::rules};

/// The newest change of each key that waits to be published.
#[derive(Debug)]
pub struct UnpublishedQueue {
    waiting: Mutex<BTreeMap<String, UnpublishedChange>>,
    most: usize,
    /// Whether something waits, without the lock.
    any: AtomicBool,
    /// When the last change that waited was published.
    emptied: Mutex<Option<Instant>>,
    added: Notify,
    /// The epoch that replaces the changes that did not fit; below it this node must not use shared copies.
    barrier: AtomicU64,
    recent: RecentPublishes,
}

/// A change that waits.
#[derive(Debug)]
struct UnpublishedChange {
    change: Invalidation,
    /// Raised whenever the key changes again while it waits.
    revision: u64,
}

impl UnpublishedQueue {
    /// An empty queue for at most `most` keys.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            most,
            any: AtomicBool::new(false),
            emptied: Mutex::default(),
            added: Notify::new(),
            barrier: AtomicU64::new(0),
            recent: RecentPublishes::default(),
        }
    }

    /// Whether a change of this address waits.
    #[must_use]
    pub fn holds(&self, address: &str) -> bool {
        // The epoch is not part of what is looked up: a change outlives it.
        let key = || address.split_once(':').map_or(address, |(_, rest)| rest);
        self.any.load(Ordering::Acquire) && self.waiting.lock().contains_key(key())
    }

    /// How many keys wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long no change has waited.
    pub(crate) fn empty_for(&self) -> Duration {
        if self.is_empty() {
            self.emptied.lock().map_or(Duration::MAX, |at| at.elapsed())
        } else {
            Duration::ZERO
        }
    }

    /// Returns when something waits; for one caller.
    pub async fn until_not_empty(&self) {
        while self.is_empty() {
            self.added.notified().await;
        }
    }

    /// Queues a change, without its copy. If two changes have the same key, the newer version stays, and an
    /// unknown version replaces all. False: there is no room, or the key is too long to be published, and
    /// only a new epoch can replace it.
    #[must_use]
    pub fn add(&self, change: &Invalidation) -> bool {
        let mut waiting = self.waiting.lock();
        let name = name(change);
        let full = waiting.len() >= self.most && !waiting.contains_key(&name);
        if full || change.key.len() > usize::from(u16::MAX) {
            return false;
        }
        self.any.store(true, Ordering::Release);
        self.added.notify_one();
        let entry = waiting
            .entry(name)
            .or_insert_with(|| UnpublishedChange { change: change.without_copy(), revision: 0 });
        entry.revision += 1;
        entry.change.version = match (entry.change.version, change.version) {
            (Some(one), Some(other)) => Some(one.max(other)),
            _ => None,
        };
        true
    }

    /// Records changes that were published in the log of this epoch.
    pub(crate) fn record_published(&self, epoch: u64, changes: &[Invalidation]) {
        self.recent.record(epoch, changes);
    }

    /// The node follows this epoch from now on: what it published recently in an earlier log is queued again,
    /// as far as there is room.
    pub(crate) fn requeue_recent(&self, epoch: u64) {
        if rules::published_again() {
            let _fits = self.recent.take_before(epoch).iter().all(|change| self.add(change));
        }
    }

    /// The first epoch in which shared copies may be used: some change did not fit before.
    #[must_use]
    pub fn barrier(&self) -> u64 {
        self.barrier.load(Ordering::Acquire)
    }

    /// This epoch replaces the changes that did not fit.
    pub fn raise_barrier(&self, epoch: u64) {
        self.barrier.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Up to this many changes, unordered, and how often each key has changed while it waited; they stay
    /// until they are [removed](Self::remove_published).
    #[must_use]
    pub fn next_batch(&self, most: usize) -> (Vec<Invalidation>, Vec<u64>) {
        let waiting = self.waiting.lock();
        waiting.values().take(most).map(|waiting| (waiting.change.clone(), waiting.revision)).unzip()
    }

    /// Removes published changes in these revisions, unless their keys have changed again since.
    pub fn remove_published(&self, published: &[Invalidation], revisions: &[u64]) {
        let mut waiting = self.waiting.lock();
        for (change, revision) in published.iter().zip(revisions) {
            let name = name(change);
            if waiting.get(&name).is_some_and(|now| now.revision == *revision || !rules::queue_newest()) {
                waiting.remove(&name);
            }
        }
        self.any.store(!waiting.is_empty(), Ordering::Release);
        if waiting.is_empty() {
            *self.emptied.lock() = Some(Instant::now());
        }
    }
}

/// The name is an address without the epoch.
fn name(change: &Invalidation) -> String {
    format!("{}:{}", change.namespace, change.key)
}
