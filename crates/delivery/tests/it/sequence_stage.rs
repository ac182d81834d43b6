//! A sequence store in memory that counts its steps, and a keeper that fails on request.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{FutureExt as _, future::BoxFuture};
use kith_cache::{fake::ManualClock, remote::SharedError};
use kith_delivery::{
    Background, MemorySequences, Offer, SequenceKeeper, SequenceLimits, Sequences, Take, Taken,
};
use kith_store::{Outcome, Seq, SeqRange, SequenceName, SequenceStore, StoreError};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

pub(crate) fn named(text: &str) -> SequenceName {
    text.parse().unwrap()
}

pub(crate) fn range(first: Seq, last: Seq) -> SeqRange {
    SeqRange { first, last }
}

#[derive(Debug)]
pub(crate) struct Numbers {
    last: Mutex<HashMap<SequenceName, Seq>>,
    /// How many numbers each step took.
    pub(crate) steps: Mutex<Vec<u32>>,
    /// A permit for each step.
    pub(crate) gate: Semaphore,
    pub(crate) is_unavailable: AtomicBool,
}

impl Numbers {
    fn new() -> Arc<Self> {
        let gate = Semaphore::new(Semaphore::MAX_PERMITS);
        Arc::new(Self { last: Mutex::default(), steps: Mutex::default(), gate, is_unavailable: false.into() })
    }

    pub(crate) fn steps(&self) -> Vec<u32> {
        self.steps.lock().clone()
    }
}

#[async_trait]
impl SequenceStore for Numbers {
    async fn take_seqs(&self, name: &SequenceName, count: u32, above: Seq) -> Result<SeqRange, StoreError> {
        self.gate.acquire().await.unwrap().forget();
        if self.is_unavailable.load(Ordering::Acquire) {
            let source = Arc::new(io::Error::from(io::ErrorKind::NotConnected));
            return Err(StoreError::Unavailable { outcome: Outcome::Unknown, source });
        }
        self.steps.lock().push(count);
        let mut last = self.last.lock();
        let last = last.entry(name.clone()).or_default();
        let first = above.max(*last) + 1;
        *last = first + i64::from(count) - 1;
        Ok(SeqRange { first, last: *last })
    }

    async fn max_seqs(&self, names: &[SequenceName]) -> Result<Vec<Seq>, StoreError> {
        let last = self.last.lock();
        Ok(names.iter().map(|name| last.get(name).copied().unwrap_or(0)).collect())
    }
}

/// A node's memory as a keeper that may be unavailable, like Redis.
#[derive(Debug)]
pub(crate) struct Server {
    keeper: MemorySequences,
    pub(crate) takes: AtomicUsize,
    /// A permit for each take.
    pub(crate) gate: Semaphore,
    pub(crate) is_unavailable: AtomicBool,
    /// Offers are made, and not answered.
    pub(crate) loses_answers: AtomicBool,
}

#[async_trait]
impl SequenceKeeper for Server {
    async fn take(&self, name: &SequenceName, take: Take) -> Result<Taken, SharedError> {
        self.takes.fetch_add(1, Ordering::AcqRel);
        self.gate.acquire().await.unwrap().forget();
        if self.is_unavailable.load(Ordering::Acquire) {
            return Err(SharedError::Unavailable);
        }
        self.keeper.take(name, take).await
    }

    async fn offer(&self, name: &SequenceName, offer: Offer) -> Result<(), SharedError> {
        if self.is_unavailable.load(Ordering::Acquire) {
            return Err(SharedError::Unavailable);
        }
        self.keeper.offer(name, offer).await?;
        if self.loses_answers.load(Ordering::Acquire) { Err(SharedError::Timeout) } else { Ok(()) }
    }
}

#[derive(Debug)]
struct Spawned;

impl Background for Spawned {
    fn run(&self, work: BoxFuture<'static, ()>) {
        tokio::spawn(work);
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(time).boxed()
    }
}

/// A node, and what it takes its numbers from.
pub(crate) struct TestNode {
    pub(crate) sequences: Sequences,
    pub(crate) store: Arc<Numbers>,
    pub(crate) server: Arc<Server>,
    pub(crate) clock: ManualClock,
    limits: SequenceLimits,
}

impl TestNode {
    pub(crate) fn new(limits: SequenceLimits) -> Self {
        let server = Server {
            keeper: MemorySequences::new(100),
            takes: AtomicUsize::new(0),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            is_unavailable: false.into(),
            loses_answers: false.into(),
        };
        let (store, server, clock) = (Numbers::new(), Arc::new(server), ManualClock::new());
        let sequences = node(&store, &server, &clock, limits);
        Self { sequences, store, server, clock, limits }
    }

    /// Another node over the same.
    pub(crate) fn another(&self) -> Sequences {
        node(&self.store, &self.server, &self.clock, self.limits)
    }

    pub(crate) async fn reserve(&self, count: u32, above: Seq) -> Vec<SeqRange> {
        self.sequences.reserve(&named("a"), count, above).await.unwrap()
    }
}

fn node(
    store: &Arc<Numbers>,
    server: &Arc<Server>,
    clock: &ManualClock,
    limits: SequenceLimits,
) -> Sequences {
    let (store, server) = (Arc::<Numbers>::clone(store), Arc::<Server>::clone(server));
    Sequences::new(store, server, Arc::new(clock.clone()), Arc::new(Spawned), limits)
}
