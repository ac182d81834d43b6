mod far;

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
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
use tokio::{net::TcpListener, sync::watch, time::sleep};

use far::Far;

/// A store in memory whose records are their versions. A read takes its snapshot first and answers later, after a
/// random delay: the case that a guarded fill must survive. Its clones are one store. It also keeps the epoch.
#[derive(Clone, Debug)]
pub struct Store(Arc<State>);

#[derive(Debug)]
struct State {
    /// The store is in another process; all else here stays empty.
    far: Option<Far>,
    records: Mutex<HashMap<u64, Vec<Commit>, ahash::RandomState>>,
    /// Keys and versions of all commits, in their order.
    journal: Mutex<Vec<(u64, u64)>>,
    epoch: Mutex<(u64, String)>,
    latest: Mutex<Duration>,
    random: Mutex<SmallRng>,
    held: watch::Sender<bool>,
    loads: AtomicU64,
    /// Loads answered, and those whose caller left before.
    ended: AtomicU64,
}

/// A version of a record.
#[derive(Clone, Copy, Debug)]
struct Commit {
    version: u64,
    /// When its writer got the acknowledgement.
    acknowledged: Option<Instant>,
    /// When it had been published to the nodes.
    told: Option<Instant>,
}

/// How old a version was when it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staleness {
    /// Since a later version had been acknowledged.
    pub acknowledged: Duration,
    /// Since a later version had been published to the nodes.
    pub told: Duration,
}

impl Store {
    /// Empty; a read answers up to so much later. What happens at random follows from the seed.
    #[must_use]
    pub fn new(latest: Duration, seed: u64) -> Self {
        Self::made(latest, seed, None)
    }

    /// That of another process, which [`serve`](Self::serve)s it: records are read and the epoch is kept there.
    /// Nothing can be written here.
    #[must_use]
    pub fn far(address: SocketAddr) -> Self {
        Self::made(Duration::ZERO, 0, Some(Far(address)))
    }

    /// Serves nodes in other processes, as long as the runtime exists; returns the address.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn serve(&self) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        tokio::spawn(far::serve(self.clone(), listener));
        Ok(address)
    }

    fn made(latest: Duration, seed: u64, far: Option<Far>) -> Self {
        Self(Arc::new(State {
            far,
            records: Mutex::default(),
            journal: Mutex::default(),
            epoch: Mutex::new((1, String::new())),
            latest: Mutex::new(latest),
            random: Mutex::new(SmallRng::seed_from_u64(seed)),
            held: watch::Sender::new(false),
            loads: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }))
    }

    /// From now on a read answers up to so much later.
    pub fn answer_within(&self, latest: Duration) {
        *self.0.latest.lock() = latest;
    }

    /// Commits the next version of a record and returns it; the first is 1.
    #[must_use]
    pub fn commit(&self, key: u64) -> u64 {
        let mut records = self.0.records.lock();
        let history = records.entry(key).or_default();
        let version = history.last().map_or(1, |last| last.version + 1);
        history.push(Commit { version, acknowledged: None, told: None });
        self.0.journal.lock().push((key, version));
        version
    }

    /// Keys and versions of the commits after the first so many, in their order: what a change stream delivers.
    #[must_use]
    pub fn commits(&self, after: usize) -> Vec<(u64, u64)> {
        self.0.journal.lock().get(after..).unwrap_or_default().to_vec()
    }

    /// The version that a record has; 0: none.
    #[must_use]
    pub fn version(&self, key: u64) -> u64 {
        self.0.records.lock().get(&key).and_then(|history| history.last()).map_or(0, |last| last.version)
    }

    /// The writer of this version gets its acknowledgement now, and whether it was published to the nodes: from now on
    /// older ones are stale.
    pub fn acknowledge(&self, key: u64, version: u64, told: bool) {
        let mut records = self.0.records.lock();
        let history = records.entry(key).or_default();
        if let Some(commit) = history.iter_mut().find(|commit| commit.version == version) {
            let now = Instant::now();
            commit.acknowledged.get_or_insert(now);
            commit.told = commit.told.or(told.then_some(now));
        }
    }

    /// How old a version was at that moment.
    #[must_use]
    pub fn staleness(&self, key: u64, version: u64, at: Instant) -> Staleness {
        let records = self.0.records.lock();
        let mut staleness = Staleness::default();
        for commit in records.get(&key).into_iter().flatten().filter(|commit| commit.version > version) {
            let since = |then: Option<Instant>| {
                then.map_or(Duration::ZERO, |then| at.saturating_duration_since(then))
            };
            staleness.acknowledged = staleness.acknowledged.max(since(commit.acknowledged));
            staleness.told = staleness.told.max(since(commit.told));
        }
        staleness
    }

    /// From now on reads take their snapshot and answer no sooner than this is ended.
    pub fn hold(&self, held: bool) {
        self.0.held.send_replace(held);
    }

    /// Reads of the store so far; one of many keys is as many.
    #[must_use]
    pub fn loads(&self) -> u64 {
        self.0.loads.load(Ordering::Relaxed)
    }

    /// Reads of the store under way, those that their callers gave up among them.
    #[must_use]
    pub fn loading(&self) -> u64 {
        self.loads() - self.0.ended.load(Ordering::Relaxed)
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.epoch.lock().0
    }

    async fn late(&self) {
        let latest = *self.0.latest.lock();
        if !latest.is_zero() {
            let late = self.0.random.lock().random_range(Duration::ZERO..=latest);
            sleep(late).await;
        }
        // Fails never: the store holds the sender.
        drop(self.0.held.subscribe().wait_for(|held| !held).await);
    }

    /// The version of a record, returned late.
    async fn read(&self, key: u64) -> u64 {
        self.0.loads.fetch_add(1, Ordering::Relaxed);
        let _ended = Ended(&self.0.ended);
        let version = self.version(key);
        self.late().await;
        version
    }
}

#[async_trait::async_trait]
impl Loader<u64, u64> for Store {
    async fn load(&self, key: &u64, _options: LoadOptions) -> Result<Loaded<u64>, LoadError> {
        match self.0.far {
            Some(far) => far.version(*key).await.map(loaded).map_err(failed),
            None => Ok(loaded(self.read(*key).await)),
        }
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

fn loaded(version: u64) -> Loaded<u64> {
    match version {
        0 => Loaded::Absent { version: Version::UNVERSIONED },
        version => Loaded::Found { value: Arc::new(version), version: Version::new(version) },
    }
}

fn failed(error: anyhow::Error) -> LoadError {
    LoadError::new(std::io::Error::other(error))
}

/// Counts the end of a read, however it ends.
struct Ended<'a>(&'a AtomicU64);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[async_trait::async_trait]
impl Epochs for Store {
    async fn current(&self) -> Result<(u64, String), SharedError> {
        if let Some(far) = self.0.far {
            return far.epoch().await.map_err(|_| SharedError::Away);
        }
        Ok(self.0.epoch.lock().clone())
    }

    async fn raise(&self, seen: u64, server: &str) -> Result<u64, SharedError> {
        if let Some(far) = self.0.far {
            return far.raise(seen, server).await.map_err(|_| SharedError::Away);
        }
        let mut epoch = self.0.epoch.lock();
        if epoch.0 == seen {
            *epoch = (seen + 1, server.to_owned());
        }
        Ok(epoch.0)
    }
}
