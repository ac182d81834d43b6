//! Changes that the shared server could not be told of, until it is.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Version, guards};

/// The newest change of each key that waits to be told.
#[derive(Debug)]
pub struct Queue {
    waiting: Mutex<HashMap<String, Waiting>>,
    most: usize,
    /// Whether something waits, without the lock.
    any: AtomicBool,
    filled: Notify,
    /// The epoch that makes up for what did not fit; below it no copy that nodes share may be believed here.
    barrier: AtomicU64,
}

/// A change that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Namespace of the record.
    pub namespace: &'static str,
    /// Text of its key.
    pub key: String,
    /// The version it has; `None`: not known.
    pub version: Option<Version>,
    /// Raised whenever the key changes again while it waits.
    turn: u64,
}

impl Waiting {
    /// A change to be told.
    #[must_use]
    pub const fn new(namespace: &'static str, key: String, version: Option<Version>) -> Self {
        Self { namespace, key, version, turn: 0 }
    }
}

impl Queue {
    /// Empty; more keys than `most` do not fit.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            most,
            any: AtomicBool::new(false),
            filled: Notify::new(),
            barrier: AtomicU64::new(0),
        }
    }

    /// Whether a change of this address waits.
    #[must_use]
    pub fn holds(&self, address: &str) -> bool {
        // The epoch is not part of what is looked up: a change outlives it.
        let key = address.split_once(':').map_or(address, |(_, rest)| rest);
        self.any.load(Ordering::Acquire) && self.waiting.lock().contains_key(key)
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

    /// Returns once something waits; for one caller.
    pub async fn filled(&self) {
        while self.is_empty() {
            self.filled.notified().await;
        }
    }

    /// Lets a change wait. Of two of one key the newer version stays, and an unknown one beats all. False:
    /// there is no room, or the key is too long to be told, and only a new epoch can make up for it.
    #[must_use]
    pub fn add(&self, namespace: &'static str, key: &str, version: Option<Version>) -> bool {
        let mut waiting = self.waiting.lock();
        let name = format!("{namespace}:{key}");
        let full = waiting.len() >= self.most && !waiting.contains_key(&name);
        if full || key.len() > usize::from(u16::MAX) {
            return false;
        }
        self.any.store(true, Ordering::Release);
        self.filled.notify_one();
        let entry = waiting.entry(name).or_insert_with(|| Waiting {
            namespace,
            key: key.to_owned(),
            version,
            turn: 0,
        });
        entry.turn += 1;
        entry.version = match (entry.version, version) {
            (Some(one), Some(other)) => Some(one.max(other)),
            _ => None,
        };
        true
    }

    /// From which epoch on the copies that nodes share may be believed: something did not fit before.
    #[must_use]
    pub fn barrier(&self) -> u64 {
        self.barrier.load(Ordering::Acquire)
    }

    /// What did not fit is made up for by this epoch.
    pub fn overflowed(&self, epoch: u64) {
        self.barrier.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Up to so many changes, in no order; they stay until they are [`told`](Self::told).
    #[must_use]
    pub fn some(&self, most: usize) -> Vec<Waiting> {
        self.waiting.lock().values().take(most).cloned().collect()
    }

    /// These were told: they go, unless their keys have changed again since.
    pub fn told(&self, told: &[Waiting]) {
        let mut waiting = self.waiting.lock();
        for change in told {
            let name = format!("{}:{}", change.namespace, change.key);
            if waiting.get(&name).is_some_and(|now| now.turn == change.turn || !guards::queue_newest()) {
                waiting.remove(&name);
            }
        }
        self.any.store(!waiting.is_empty(), Ordering::Release);
    }
}
