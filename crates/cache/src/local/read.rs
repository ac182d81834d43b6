//! Reads after a miss of memory.

use std::{collections::HashMap, sync::Arc};

use futures::future::join_all;
use tokio::time::{Instant, timeout_at};

use super::{
    inner::{CacheState, LookupResult, ReadMode},
    load::{JoinResult, LoadBatchBuilder},
    single_flight::{Flight, Outcome, Waiter},
};
use crate::{CacheError, Entry, Key, Loaded, Moment, testing::rules};

/// How often a read is retried if the store returns an older version than the known version.
const REREADS: usize = 2;

type JoinedLoad<V> = (Waiter<V>, Arc<Flight<V>>);
type Answer<V> = Result<Option<Entry<V>>, CacheError>;

/// How a wait ended.
enum WaitResult<V> {
    Loaded(Outcome<V>),
    Stale(Option<Entry<V>>),
    TimedOut,
}

impl<K: Key, V: Send + Sync + 'static> CacheState<K, V> {
    /// Reads one key through a load.
    pub(crate) async fn read(self: &Arc<Self>, key: &K, mode: ReadMode) -> Answer<V> {
        self.counters.misses.add(1);
        self.read_until(key, mode, Instant::now() + self.policy.hard_timeout).await
    }

    async fn read_until(self: &Arc<Self>, key: &K, mode: ReadMode, deadline: Instant) -> Answer<V> {
        let cached = mode.is_cached();
        let mut mode = mode;
        let mut rereads = 0;
        loop {
            let (waiter, flight) = match self.join_one(key, mode) {
                Ok(joined) => joined,
                Err(entry) => return Ok(entry),
            };
            match self.wait(key, &waiter, &flight, cached, deadline).await {
                WaitResult::Loaded(outcome) if rereads < REREADS && is_lagging(&outcome, &flight) => {
                    rereads += 1;
                    mode = ReadMode::Strong;
                }
                WaitResult::Loaded(outcome) => return self.answer(key, &outcome, self.node.now(), cached),
                WaitResult::Stale(entry) => return Ok(entry),
                WaitResult::TimedOut => return self.timed_out(key, cached),
            }
        }
    }

    /// The answers of memory for these keys, up to the first miss. All were valid at one moment, or are
    /// newer.
    pub(crate) fn hits(self: &Arc<Self>, keys: &[K]) -> Vec<Answer<V>> {
        let (now, mut hits) = (self.node.now(), Vec::with_capacity(keys.len()));
        for key in keys {
            let LookupResult::Served(found) = self.lookup_uncounted(key, Some(now)) else { break };
            hits.push(Ok(found));
        }
        self.counters.hits.add(hits.len() as u64);
        hits
    }

    /// Like [`Self::read`], for many keys. `hits`: the answers that memory has given for the first keys.
    pub(crate) async fn read_many(
        self: &Arc<Self>,
        keys: &[K],
        cached: bool,
        hits: Vec<Answer<V>>,
    ) -> Vec<Answer<V>> {
        let mut batch = BatchRead::new(self, keys, cached, hits);
        batch.start_or_join();
        batch.wait().await;
        batch.finish().await
    }

    /// Joins or begins a flight, and returns it, or the copy that memory has by now.
    fn join_one(self: &Arc<Self>, key: &K, mode: ReadMode) -> Result<JoinedLoad<V>, Option<Entry<V>>> {
        let mut open = None;
        match self.start_or_join(key, mode, &mut open) {
            JoinResult::Copy(slot) => Err(slot.into_entry(self.node.now(), false)),
            JoinResult::Flight(flight) => {
                let led = open.map(LoadBatchBuilder::close);
                Ok((led.unwrap_or_else(|| Waiter::join(&flight.batch)), flight))
            }
        }
    }

    async fn wait(
        &self,
        key: &K,
        waiter: &Waiter<V>,
        flight: &Flight<V>,
        cached: bool,
        deadline: Instant,
    ) -> WaitResult<V> {
        if cached && self.stale(key).is_some() {
            let soft = (Instant::now() + self.policy.soft_timeout).min(deadline);
            // The copy is looked up again: an invalidation may have dropped it meanwhile.
            if timeout_at(soft, waiter.outcomes()).await.is_err()
                && let Some(slot) = self.stale(key)
            {
                self.counters.stale_slow.add(1);
                return WaitResult::Stale(slot.into_entry(self.node.now(), true));
            }
        }
        match timeout_at(deadline, waiter.outcomes()).await {
            Ok(outcomes) => {
                outcomes.get(flight.index).cloned().map_or(WaitResult::TimedOut, WaitResult::Loaded)
            }
            Err(_elapsed) => WaitResult::TimedOut,
        }
    }

    fn answer(&self, key: &K, outcome: &Outcome<V>, now: Moment, cached: bool) -> Answer<V> {
        match &outcome.result {
            Ok(Loaded::Found { value, version }) => {
                self.counters.store_found.add(1);
                let age = now.since(outcome.read_at);
                let value = Arc::clone(value);
                Ok(Some(Entry { value, version: *version, tier: outcome.tier, age, stale: false }))
            }
            Ok(Loaded::Absent { .. }) => {
                self.counters.store_absent.add(1);
                Ok(None)
            }
            Err(error) => self.stale_or_error(error, key, cached),
        }
    }

    fn timed_out(&self, key: &K, cached: bool) -> Answer<V> {
        self.stale_or_error(&CacheError::Timeout, key, cached)
    }

    /// Returns a stale copy if it may be served, otherwise the error.
    fn stale_or_error(&self, error: &CacheError, key: &K, cached: bool) -> Answer<V> {
        let Some(slot) = cached.then(|| self.stale(key)).flatten() else {
            self.counters.store_errors.add(1);
            return Err(error.clone());
        };
        self.counters.stale_error.add(1);
        Ok(slot.into_entry(self.node.now(), true))
    }
}

/// Whether the store returned an older version than was known when the load began.
fn is_lagging<V>(outcome: &Outcome<V>, flight: &Flight<V>) -> bool {
    let lags = |loaded: &Loaded<V>| loaded.version() < flight.floor;
    rules::reread_below_floor() && outcome.result.as_ref().is_ok_and(lags)
}

/// A read of many keys.
struct BatchRead<'a, K: Key, V: Send + Sync + 'static> {
    inner: &'a Arc<CacheState<K, V>>,
    keys: &'a [K],
    cached: bool,
    /// When it began. Copies in memory are valid at this moment, or are newer.
    began: Moment,
    deadline: Instant,
    /// One result for each key that was processed; `None` while it waits for its flight, or for the first
    /// equal key.
    answers: Vec<Option<Answer<V>>>,
    /// Indexes of keys and the flights that they wait for.
    waiting: Vec<(usize, Arc<Flight<V>>)>,
    /// Indexes of repeated keys, each with the index of its first occurrence.
    repeats: Vec<(usize, usize)>,
    waiters: Vec<Waiter<V>>,
}

impl<'a, K: Key, V: Send + Sync + 'static> BatchRead<'a, K, V> {
    fn new(inner: &'a Arc<CacheState<K, V>>, keys: &'a [K], cached: bool, hits: Vec<Answer<V>>) -> Self {
        let (began, deadline) = (inner.node.now(), Instant::now() + inner.policy.hard_timeout);
        let (waiting, repeats, waiters) =
            (Vec::with_capacity(keys.len() - hits.len()), Vec::new(), Vec::new());
        let answers = hits.into_iter().map(Some).collect();
        Self { inner, keys, cached, began, deadline, answers, waiting, repeats, waiters }
    }

    /// Takes copies from memory, and begins all own loads before any flight is awaited.
    fn start_or_join(&mut self) {
        let answered = self.answers.len();
        let mut firsts: HashMap<&K, usize, ahash::RandomState> =
            HashMap::with_capacity_and_hasher(self.keys.len() - answered, ahash::RandomState::default());
        self.answers.resize_with(self.keys.len(), || None);
        let mut open = None;
        for (index, key) in self.keys.iter().enumerate().skip(answered) {
            let first = *firsts.entry(key).or_insert(index);
            if first == index {
                self.join_key(index, key, &mut open);
            } else {
                self.repeats.push((index, first));
            }
            if open.as_ref().is_some_and(|open| open.len() >= self.inner.policy.batch_chunk.max(1)) {
                self.waiters.extend(open.take().map(LoadBatchBuilder::close));
            }
        }
        self.waiters.extend(open.map(LoadBatchBuilder::close));
    }

    fn join_key(&mut self, index: usize, key: &K, open: &mut Option<LoadBatchBuilder<K, V>>) {
        let mode = match self.cached.then(|| self.inner.lookup(key, Some(self.began))) {
            Some(LookupResult::Served(found)) => {
                self.answers[index] = Some(Ok(found));
                return;
            }
            Some(LookupResult::Missed(reason)) => ReadMode::Cached(reason),
            None => ReadMode::Strong,
        };
        self.inner.counters.misses.add(1);
        let before = open.as_ref().map_or(0, LoadBatchBuilder::len);
        match self.inner.start_or_join(key, mode, open) {
            JoinResult::Copy(slot) => {
                self.answers[index] = Some(Ok(slot.into_entry(self.inner.node.now(), false)));
            }
            JoinResult::Flight(flight) => {
                let joined = open.as_ref().map_or(0, LoadBatchBuilder::len) == before;
                if joined && !self.waiters.iter().any(|waiter| waiter.waits_for(&flight.batch)) {
                    self.waiters.push(Waiter::join(&flight.batch));
                }
                self.waiting.push((index, flight));
            }
        }
    }

    /// Waits until all batches have ended, or stale copies can answer the rest, or the deadline has passed.
    async fn wait(&mut self) {
        let soft = (Instant::now() + self.inner.policy.soft_timeout).min(self.deadline);
        let ends = join_all(self.waiters.iter().map(Waiter::outcomes));
        tokio::pin!(ends);
        if timeout_at(soft, &mut ends).await.is_ok() || self.all_stale() {
            return;
        }
        // For a load that has not ended by then, the answer is a stale copy or an error.
        drop(timeout_at(self.deadline, ends).await);
    }

    fn all_stale(&self) -> bool {
        let stale = |(index, flight): &(usize, Arc<Flight<V>>)| {
            flight.outcome().is_some() || self.inner.stale(&self.keys[*index]).is_some()
        };
        self.cached && self.waiting.iter().all(stale)
    }

    async fn finish(mut self) -> Vec<Answer<V>> {
        let now = self.inner.node.now();
        for (index, flight) in std::mem::take(&mut self.waiting) {
            let key = &self.keys[index];
            let answer = match flight.outcome() {
                Some(outcome) if is_lagging(outcome, &flight) => {
                    self.inner.read_until(key, ReadMode::Strong, self.deadline).await
                }
                Some(outcome) => self.inner.answer(key, outcome, now, self.cached),
                None => self.inner.timed_out(key, self.cached),
            };
            self.answers[index] = Some(answer);
        }
        for (index, first) in std::mem::take(&mut self.repeats) {
            self.answers[index] = self.answers[first].clone();
        }
        self.answers.into_iter().map(|answer| answer.unwrap_or(Err(CacheError::Timeout))).collect()
    }
}
