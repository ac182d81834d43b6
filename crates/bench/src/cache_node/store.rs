//! The in-memory store behind the cache nodes of benchmarks. It keeps the time at which each version was
//! acknowledged, and computes from it how stale a read is.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use kith_cache::{
    LoadError, LoadOptions, Loaded, Loader, Version,
    remote::{Epochs, SharedError},
};
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::time::sleep;

/// A store in memory whose records are their versions. A read takes its snapshot first and answers later,
/// after a random delay: the case that a guarded fill must survive. Its clones are one store. It also keeps
/// the epoch.
#[derive(Clone, Debug)]
pub(crate) struct Store(Arc<StoreState>);

#[derive(Debug)]
struct StoreState {
    records: Mutex<HashMap<u64, Vec<Commit>, ahash::RandomState>>,
    /// The keys and versions that were committed, in their order.
    journal: Mutex<Vec<(u64, u64)>>,
    epoch: Mutex<(u64, String)>,
    latest: Duration,
    random: Mutex<SmallRng>,
    loads: AtomicU64,
}

/// A committed record version.
#[derive(Clone, Copy, Debug)]
struct Commit {
    version: u64,
    /// When its writer got the acknowledgement.
    acknowledged: Option<Instant>,
}

impl Store {
    /// Creates an empty store. A read answers after a random delay up to `latest`, which follows from the
    /// seed.
    #[must_use]
    pub(crate) fn new(latest: Duration, seed: u64) -> Self {
        Self(Arc::new(StoreState {
            records: Mutex::default(),
            journal: Mutex::default(),
            epoch: Mutex::new((1, String::new())),
            latest,
            random: Mutex::new(SmallRng::seed_from_u64(seed)),
            loads: AtomicU64::new(0),
        }))
    }

    /// Commits the record's next version and returns it; the first is 1.
    #[must_use]
    pub(crate) fn commit(&self, key: u64) -> u64 {
        let mut records = self.0.records.lock();
        let history = records.entry(key).or_default();
        let version = history.last().map_or(1, |last| last.version + 1);
        history.push(Commit { version, acknowledged: None });
        self.0.journal.lock().push((key, version));
        version
    }

    /// The keys and versions that were committed after the first `after` commits, in their order, as a change
    /// stream delivers them.
    #[must_use]
    pub(crate) fn commits(&self, after: usize) -> Vec<(u64, u64)> {
        self.0.journal.lock().get(after..).unwrap_or_default().to_vec()
    }

    /// The record's version; 0: absent.
    #[must_use]
    pub(crate) fn version(&self, key: u64) -> u64 {
        self.0.records.lock().get(&key).and_then(|history| history.last()).map_or(0, |last| last.version)
    }

    /// Acknowledges this version to its writer: from now on older versions are stale.
    pub(crate) fn acknowledge(&self, key: u64, version: u64) {
        let mut records = self.0.records.lock();
        let history = records.entry(key).or_default();
        if let Some(commit) = history.iter_mut().find(|commit| commit.version == version) {
            commit.acknowledged.get_or_insert_with(Instant::now);
        }
    }

    /// How long a later version had been acknowledged at that moment; zero: this version was not stale.
    #[must_use]
    pub(crate) fn staleness(&self, key: u64, version: u64, at: Instant) -> Duration {
        let records = self.0.records.lock();
        let later = records.get(&key).into_iter().flatten().filter(|commit| commit.version > version);
        let since = later.filter_map(|commit| Some(at.saturating_duration_since(commit.acknowledged?)));
        since.max().unwrap_or_default()
    }

    /// Reads from the store so far. A read for many keys counts once for each key.
    #[must_use]
    pub(crate) fn loads(&self) -> u64 {
        self.0.loads.load(Ordering::Relaxed)
    }

    /// The record's version, returned late.
    async fn read(&self, key: u64) -> u64 {
        self.0.loads.fetch_add(1, Ordering::Relaxed);
        let version = self.version(key);
        if !self.0.latest.is_zero() {
            let late = self.0.random.lock().random_range(Duration::ZERO..=self.0.latest);
            sleep(late).await;
        }
        version
    }
}

#[async_trait::async_trait]
impl Loader<u64, u64> for Store {
    async fn load(&self, key: &u64, _options: LoadOptions) -> Result<Loaded<u64>, LoadError> {
        Ok(match self.read(*key).await {
            0 => Loaded::Absent { version: Version::UNVERSIONED },
            version => Loaded::Found { value: Arc::new(version), version: Version::new(version) },
        })
    }

    async fn load_many(
        &self,
        keys: &[u64],
        options: LoadOptions,
    ) -> Result<Vec<(u64, Loaded<u64>)>, LoadError> {
        let load = async |key: &u64| Ok((*key, self.load(key, options).await?));
        try_join_all(keys.iter().map(load)).await
    }
}

#[async_trait::async_trait]
impl Epochs for Store {
    async fn current(&self) -> Result<(u64, String), SharedError> {
        Ok(self.0.epoch.lock().clone())
    }

    async fn raise(&self, seen: u64, server: &str) -> Result<u64, SharedError> {
        let mut epoch = self.0.epoch.lock();
        if epoch.0 == seen {
            *epoch = (seen + 1, server.to_owned());
        }
        Ok(epoch.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_stale_from_next_acknowledgement() {
        let store = Store::new(Duration::ZERO, 1);
        let first = store.commit(7);
        store.acknowledge(7, first);
        let second = store.commit(7);
        let later = Instant::now() + Duration::from_secs(1);
        assert_eq!(store.staleness(7, first, later), Duration::ZERO, "the second is not acknowledged");
        store.acknowledge(7, second);
        let since = Instant::now() + Duration::from_secs(1);
        assert!(store.staleness(7, first, since) >= Duration::from_secs(1));
        assert_eq!(store.staleness(7, second, since), Duration::ZERO);
    }

    #[tokio::test]
    async fn late_read_returns_what_it_saw_first() {
        let store = Store::new(Duration::from_millis(30), 1);
        let first = store.commit(7);
        let load = store.load(&7, LoadOptions::default());
        tokio::pin!(load);
        assert!(futures::poll!(&mut load).is_pending());
        let _second = store.commit(7);
        assert_eq!(load.await.unwrap().version().get(), first);
        assert_eq!(store.loads(), 1);
    }
}
