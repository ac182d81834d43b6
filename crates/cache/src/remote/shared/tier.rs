//! The shared tier between memory and the store.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{Acquired, Cell, CellKind, FillResult, SharedBackend, SharedError, Sharing};
use crate::{
    CacheError, Key, Loaded, Node, Presence, Tier, TierCopy, Version,
    api::clock::wall_clock_ms,
    metrics::counters::Counters,
    source::read::{Fetched, LoadRequest, Source},
    spans::Step,
    testing::rules,
};

/// Encodes a namespace's records in the shared tier.
pub trait Codec<V>: fmt::Debug + Send + Sync + 'static {
    /// Schema of what [`encode`](Self::encode) writes; another schema is a miss.
    fn schema(&self) -> u16;

    /// The record as bytes.
    fn encode(&self, value: &V) -> Vec<u8>;

    /// Decodes arbitrary bytes. `None`: they are no record, which is a miss.
    fn decode(&self, bytes: &[u8]) -> Option<V>;
}

/// A namespace's keys in the shared tier: the epoch is part of each, so that a new epoch makes all old
/// copies, leases and tombs unreachable.
#[must_use]
pub fn address(epoch: u64, namespace: &str, key: &dyn fmt::Display) -> String {
    let epoch = if rules::epoch_in_keys() { epoch } else { 0 };
    format!("{epoch}:{namespace}:{key}")
}

/// Pauses between two reads of a key that another load fills, in case the message about its end was lost.
const RECHECK_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// Reads the shared tier first, and loads the rest from the store under a lease.
pub(crate) struct SharedTier<K, V> {
    pub(crate) node: Node,
    pub(crate) namespace: &'static str,
    pub(crate) side: SharedSide<V>,
    pub(crate) below: Box<dyn Source<K, V>>,
    /// See [`Policy::strict`](crate::Policy).
    pub(crate) strict: bool,
    /// Larger records are not stored there.
    pub(crate) value_bytes_max: usize,
    /// Maximum age of a copy here.
    pub(crate) age_max: Option<Duration>,
    pub(crate) counters: Arc<Counters>,
}

/// The shared tier of a namespace.
pub(crate) struct SharedSide<V> {
    pub(crate) sharing: Sharing,
    /// The encoding of records.
    pub(crate) codec: Arc<dyn Codec<V>>,
}

impl<V> Clone for SharedSide<V> {
    fn clone(&self) -> Self {
        Self { sharing: self.sharing.clone(), codec: Arc::clone(&self.codec) }
    }
}

/// The state of one fetch: keys without an answer, and their addresses.
struct SharedFetch<'a, K, V> {
    keys: &'a [K],
    request: LoadRequest<'a>,
    /// The epoch of the addresses.
    epoch: u64,
    addresses: Vec<String>,
    answers: Vec<Option<Fetched<V>>>,
    /// Whether the keys without answers were absent at the last read.
    absent: bool,
    /// The token of the leases that this fetch takes; 0 while it needs none.
    token: u64,
}

/// Why a fetch ends before all keys are answered.
enum FetchStop {
    /// The shared tier does not answer, or another load takes too long.
    Unavailable,
    /// The store failed.
    Store(CacheError),
}

impl From<SharedError> for FetchStop {
    fn from(_: SharedError) -> Self {
        Self::Unavailable
    }
}

#[async_trait::async_trait]
impl<K: Key, V: Send + Sync + 'static> Source<K, V> for SharedTier<K, V> {
    async fn fetch(&self, keys: &[K], request: LoadRequest<'_>) -> Result<Vec<Fetched<V>>, CacheError> {
        let mut fetch = self.begin(keys, request);
        match self.fetch_shared(&mut fetch).await {
            Ok(()) | Err(FetchStop::Unavailable) => {}
            Err(FetchStop::Store(error)) => return Err(error),
        }
        if self.node.epoch() != fetch.epoch && rules::climb_in_epoch() {
            // The node has accepted another server meanwhile, which may have answered with the copies of a
            // dump.
            fetch.answers.fill_with(|| None);
        }
        // The store answers what the shared tier did not, within its own limit.
        if !fetch.is_complete() {
            let left = fetch.missing();
            let asked: Vec<K> = left.iter().map(|index| keys[*index].clone()).collect();
            let floors: Vec<Version> = left.iter().map(|index| request.floor(*index)).collect();
            let below = self.below.fetch(&asked, LoadRequest { floors: &floors, ..request }).await?;
            for (index, fetched) in left.into_iter().zip(below) {
                fetch.answers[index] = Some(fetched);
            }
        }
        fetch.answers.into_iter().map(|answer| answer.ok_or(CacheError::Timeout)).collect()
    }

    async fn stored_copy(&self, key: &K) -> Option<TierCopy> {
        let address = address(self.node.epoch(), self.namespace, key);
        let cell = self.side.sharing.backend.read(&[address]).await.ok()?.pop()?;
        Some(tier_copy(cell.as_ref()))
    }
}

/// A tomb or a lease is no copy, but has a version.
fn tier_copy(cell: Option<&Cell>) -> TierCopy {
    let presence = match cell.map(|cell| cell.header.kind) {
        Some(CellKind::Value) => Presence::Value,
        Some(CellKind::Null) => Presence::Null,
        Some(CellKind::Tomb | CellKind::Lease) | None => Presence::None,
    };
    let version = cell.map_or(Version::UNVERSIONED, |cell| cell.header.version);
    let size_bytes = cell.map_or(0, |cell| u64::try_from(cell.payload.len()).unwrap_or(u64::MAX));
    let written = cell.map(|cell| cell.header.written_ms).filter(|written| *written > 0);
    let age = written.map(|written| Duration::from_millis(wall_clock_ms().saturating_sub(written)));
    TierCopy { tier: Tier::Redis, presence, version, age, ttl: None, size_bytes }
}

impl<K: Key, V: Send + Sync + 'static> SharedTier<K, V> {
    fn begin<'a>(&self, keys: &'a [K], request: LoadRequest<'a>) -> SharedFetch<'a, K, V> {
        let epoch = self.node.epoch();
        let stem = address(epoch, self.namespace, &"");
        let addresses = keys.iter().map(|key| format!("{stem}{key}")).collect();
        let answers = keys.iter().map(|_| None).collect();
        SharedFetch { keys, request, epoch, addresses, answers, absent: false, token: 0 }
    }

    async fn fetch_shared(&self, fetch: &mut SharedFetch<'_, K, V>) -> Result<(), FetchStop> {
        if !self.may_use_shared(fetch) {
            return Err(FetchStop::Unavailable);
        }
        self.read_all(fetch).await?;
        if fetch.is_complete() {
            return Ok(());
        }
        fetch.token = self.node.random_id();
        let until = Instant::now() + self.side.sharing.patience;
        let (mut pause, mut woken) = (RECHECK_PAUSE.0, None);
        loop {
            let (leased, wait) = self.lease(fetch).await?;
            self.load(fetch, &leased).await?;
            let left = fetch.missing();
            if left.is_empty() {
                return Ok(());
            }
            // A fill that came before the watch is found by another read.
            let Some(woken) = &woken else {
                woken = Some(
                    self.side.sharing.lease_waiters.watch(left.iter().map(|index| &fetch.addresses[*index])),
                );
                continue;
            };
            if Instant::now() >= until {
                return Err(FetchStop::Unavailable);
            }
            let pause_now = pause.min(wait);
            // A timeout of the wait is no error.
            drop(timeout(pause_now, Notify::notified(woken)).await);
            pause = (pause * 2).min(RECHECK_PAUSE.1);
        }
    }

    /// Whether shared copies of these keys may be used here.
    fn may_use_shared(&self, fetch: &SharedFetch<'_, K, V>) -> bool {
        let queue = &self.side.sharing.queue;
        let overflowed = self.node.epoch() < queue.barrier() && rules::overflow_raises();
        // A node that cannot prove that changes are accepted cannot know whether copies are invalidated: a
        // full server answers reads and refuses changes, and a partitioned node may read copies of an epoch
        // that others have left.
        let trusted = self.node.may_serve(self.node.now(), self.strict) || !rules::shared_needs_trust();
        // Copies of keys that wait to be published are stale.
        let unpublished = || fetch.addresses.iter().any(|address| queue.holds(address));
        trusted && !(fetch.request.strong || overflowed || rules::queue_reads_store() && unpublished())
    }

    /// Reads all keys in one request.
    async fn read_all(&self, fetch: &mut SharedFetch<'_, K, V>) -> Result<(), FetchStop> {
        let read = self.side.sharing.backend.read(&fetch.addresses);
        let cells = Step::SharedRead.run(self.namespace, fetch.keys.len(), read).await;
        let cells = cells.inspect_err(|_| self.counters.shared_errors.add(1))?;
        fetch.absent = true;
        for (index, (answer, cell)) in fetch.answers.iter_mut().zip(cells).enumerate() {
            *answer = cell.as_ref().and_then(|cell| self.copy(cell, fetch.request.floor(index)));
            fetch.absent &= cell.is_none() || answer.is_some();
        }
        self.counters.answered_by_shared(
            fetch.answers.iter().map(|answer| answer.as_ref().map(|fetched| &fetched.loaded)),
        );
        Ok(())
    }

    /// Requests leases for missing keys. Returns the keys that it may load, with their floors, and how long
    /// to wait for the others.
    async fn lease(
        &self,
        fetch: &mut SharedFetch<'_, K, V>,
    ) -> Result<(Vec<(usize, Version)>, Duration), FetchStop> {
        let (indexes, mut leased, mut wait) = (fetch.missing(), Vec::new(), Duration::MAX);
        if indexes.is_empty() {
            return Ok((leased, wait));
        }
        let addresses: Vec<String> = indexes.iter().map(|index| fetch.addresses[*index].clone()).collect();
        let backend = &self.side.sharing.backend;
        let answers = if std::mem::take(&mut fetch.absent) {
            backend.acquire_absent(&addresses, fetch.token).await?
        } else {
            backend.acquire(&addresses, fetch.token).await?
        };
        for (index, acquired) in indexes.into_iter().zip(answers) {
            match acquired {
                Acquired::Leased { floor } => leased.push((index, floor)),
                Acquired::Wait(left) => wait = wait.min(left),
                // A copy that may not be served (too old for the reader, or not readable) is ignored.
                Acquired::Hit(cell) => match self.copy(&cell, fetch.request.floor(index)) {
                    Some(found) => fetch.answers[index] = Some(found),
                    None => leased.push((index, cell.header.version)),
                },
            }
        }
        self.counters.leases_won.add(u64::try_from(leased.len()).unwrap_or(u64::MAX));
        self.counters.leases_waited.add(u64::from(wait != Duration::MAX));
        Ok((leased, wait))
    }

    /// Loads the leased keys, and fills them.
    async fn load(
        &self,
        fetch: &mut SharedFetch<'_, K, V>,
        leased: &[(usize, Version)],
    ) -> Result<(), FetchStop> {
        if leased.is_empty() {
            return Ok(());
        }
        let asked: Vec<K> = leased.iter().map(|(index, _)| fetch.keys[*index].clone()).collect();
        let floor = |(index, floor): &(usize, Version)| fetch.request.floor(*index).max(*floor);
        let floors: Vec<Version> = leased.iter().map(floor).collect();
        match self.below.fetch(&asked, LoadRequest { floors: &floors, ..fetch.request }).await {
            Ok(loaded) => self.fill(fetch, leased, loaded).await,
            Err(error) => {
                let indexes = leased.iter().map(|(index, _)| *index);
                self.release(fetch, indexes).await;
                return Err(FetchStop::Store(error));
            }
        }
        Ok(())
    }

    /// Stores what was loaded in the shared tier. A reader waits for that only if its own memory depends on
    /// the answer: floors and received changes keep an old value with a version out of it.
    async fn fill(
        &self,
        fetch: &mut SharedFetch<'_, K, V>,
        leased: &[(usize, Version)],
        loaded: Vec<Fetched<V>>,
    ) {
        let (mut cells, mut too_large, mut unversioned) = (Vec::new(), Vec::new(), Vec::new());
        for ((index, floor), mut fetched) in leased.iter().zip(loaded) {
            let version = fetched.loaded.version();
            fetched.cacheable = version >= *floor;
            let cell = Cell { ttl_max: self.age_max, ..self.cell(&fetched.loaded, fetch.token) };
            fetch.answers[*index] = Some(fetched);
            if cell.payload.len() > self.value_bytes_max {
                too_large.push(*index);
                continue;
            }
            if !version.is_versioned() {
                unversioned.push((cells.len(), *index));
            }
            cells.push((fetch.addresses[*index].clone(), cell));
        }
        let filling = fill_cells(Arc::clone(&self.side.sharing.backend), Arc::clone(&self.counters), cells);
        if unversioned.is_empty() {
            tokio::spawn(filling);
        } else {
            let stored = filling.await;
            for (at, index) in unversioned {
                // The answer is not filled: the value may have changed since.
                if let Some(answer) = &mut fetch.answers[index] {
                    answer.cacheable &= stored[at];
                }
            }
        }
        self.release(fetch, too_large.into_iter()).await;
    }

    /// Releases leases; they expire by themselves if this fails.
    async fn release(&self, fetch: &SharedFetch<'_, K, V>, indexes: impl Iterator<Item = usize>) {
        let addresses: Vec<String> = indexes.map(|index| fetch.addresses[index].clone()).collect();
        if !addresses.is_empty() {
            let _gone = self.side.sharing.backend.release(&addresses, fetch.token).await;
        }
    }

    /// `None`: it is no copy, or older than requested.
    fn copy(&self, cell: &Cell, floor: Version) -> Option<Fetched<V>> {
        let version = cell.header.version;
        if version < floor {
            return None;
        }
        let loaded = match cell.header.kind {
            CellKind::Value if cell.header.schema == self.side.codec.schema() => {
                Loaded::Found { value: Arc::new(self.side.codec.decode(&cell.payload)?), version }
            }
            CellKind::Null => Loaded::Absent { version },
            CellKind::Value | CellKind::Tomb | CellKind::Lease => return None,
        };
        Some(Fetched { loaded, tier: Tier::Redis, cacheable: true })
    }

    fn cell(&self, loaded: &Loaded<V>, token: u64) -> Cell {
        match loaded {
            Loaded::Found { value, version } => {
                let mut cell = Cell::value(self.side.codec.schema(), *version, self.side.codec.encode(value));
                cell.header.token = token;
                cell
            }
            Loaded::Absent { version } => Cell::bare(CellKind::Null, *version, token).written_now(),
        }
    }
}

/// Fills these cells. Returns whether each is stored now.
async fn fill_cells(
    backend: Arc<dyn SharedBackend>,
    counters: Arc<Counters>,
    cells: Vec<(String, Cell)>,
) -> Vec<bool> {
    if cells.is_empty() {
        return Vec::new();
    }
    let filled = backend.fill(&cells).await.unwrap_or_default();
    let stored: Vec<bool> = (0..cells.len())
        .map(|at| filled.get(at).is_some_and(|filled| *filled == FillResult::Stored))
        .collect();
    let refused = stored.iter().filter(|stored| !**stored).count();
    counters.fills_refused.add(u64::try_from(refused).unwrap_or(u64::MAX));
    stored
}

impl<K, V> SharedFetch<'_, K, V> {
    fn is_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// The indexes of keys that have no answer yet.
    fn missing(&self) -> Vec<usize> {
        let unanswered = |(index, answer): (usize, &Option<_>)| answer.is_none().then_some(index);
        self.answers.iter().enumerate().filter_map(unanswered).collect()
    }
}
