//! A store in the hands of a test, and a node before it.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kith_cache::{
    Consistency, Entry, LoadError, LoadOptions, Loaded, Loader, Moment, Node, NodeConfig, Policy, Stats,
    TieredCache, Version,
    fake::{ManualClock, RecordingBus, Sequence},
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::gate::{Gate, Gates};

pub(crate) type Cache = TieredCache<u64, String>;

/// The error of the store when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken")
    }
}

impl std::error::Error for Broken {}

/// Records with versions. A load reads when it begins and answers when its gate opens.
#[derive(Default)]
pub(crate) struct Store {
    records: Mutex<HashMap<u64, (Option<String>, u64)>>,
    gates: Gates,
    broken: Mutex<bool>,
    panics: Mutex<bool>,
    unversioned: Mutex<bool>,
    yields: Mutex<bool>,
    pub(crate) loads: AtomicUsize,
    pub(crate) chunks: Mutex<Vec<usize>>,
    pub(crate) min_versions: Mutex<Vec<Version>>,
}

impl Store {
    pub(crate) fn put(&self, key: u64, version: u64) {
        self.records.lock().insert(key, (Some(value(key, version)), version));
    }

    pub(crate) fn delete(&self, key: u64, version: u64) {
        self.records.lock().insert(key, (None, version));
    }

    pub(crate) fn version(&self, key: u64) -> u64 {
        self.records.lock().get(&key).map_or(0, |record| record.1)
    }

    pub(crate) fn break_down(&self, broken: bool) {
        *self.broken.lock() = broken;
    }

    pub(crate) fn panic_next(&self) {
        *self.panics.lock() = true;
    }

    /// Loads pass through other tasks, as those of drivers do, before they answer.
    pub(crate) fn yield_in_loads(&self) {
        *self.yields.lock() = true;
    }

    pub(crate) fn hide_versions(&self) {
        *self.unversioned.lock() = true;
    }

    /// Holds the next load between its read and its answer.
    pub(crate) fn gate(&self) -> Gate {
        self.gates.close()
    }

    pub(crate) fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }

    fn read(&self, key: u64) -> Option<Loaded<String>> {
        let (value, version) = self.records.lock().get(&key).cloned()?;
        let version = Version::new(if *self.unversioned.lock() { 0 } else { version });
        Some(match value {
            Some(value) => Loaded::Found { value: Arc::new(value), version },
            None => Loaded::Absent { version },
        })
    }

    async fn pass(&self, options: LoadOptions) -> Result<(), LoadError> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        self.min_versions.lock().push(options.min_version);
        let broken = *self.broken.lock();
        if *self.yields.lock() {
            for _ in 0..3 {
                tokio::spawn(tokio::task::yield_now()).await.unwrap();
            }
        }
        self.gates.pass().await;
        assert!(!std::mem::take(&mut *self.panics.lock()), "the loader panics on request");
        if broken { Err(LoadError::new(Broken)) } else { Ok(()) }
    }
}

#[async_trait::async_trait]
impl Loader<u64, String> for Store {
    async fn load(&self, key: &u64, options: LoadOptions) -> Result<Loaded<String>, LoadError> {
        let read = self.read(*key);
        self.pass(options).await?;
        Ok(read.unwrap_or(Loaded::Absent { version: Version::UNVERSIONED }))
    }

    async fn load_many(
        &self,
        keys: &[u64],
        options: LoadOptions,
    ) -> Result<Vec<(u64, Loaded<String>)>, LoadError> {
        self.chunks.lock().push(keys.len());
        let read = keys.iter().rev().filter_map(|key| Some((*key, self.read(*key)?))).collect();
        self.pass(options).await?;
        Ok(read)
    }
}

/// A node with one cache over a store.
pub(crate) struct Stage {
    pub(crate) clock: ManualClock,
    pub(crate) bus: Arc<RecordingBus>,
    pub(crate) node: Node,
    pub(crate) store: Arc<Store>,
    pub(crate) cache: Cache,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Policy<String>)) -> Self {
        Self::of(change, |_| {})
    }

    pub(crate) fn of(
        change: impl FnOnce(&mut Policy<String>),
        configure: impl FnOnce(&mut NodeConfig),
    ) -> Self {
        let (clock, bus) = (ManualClock::new(), Arc::new(RecordingBus::new()));
        let mut config = NodeConfig::local(7);
        config.clock = Arc::new(clock.clone());
        config.random = Arc::new(Sequence::new([0.0]));
        config.bus = Arc::<RecordingBus>::clone(&bus);
        configure(&mut config);
        let node = Node::new(config);
        let mut policy = Policy::new("thing", String::len);
        change(&mut policy);
        let store = Arc::new(Store::default());
        let loader: Arc<dyn Loader<u64, String>> = Arc::<Store>::clone(&store);
        let cache = TieredCache::new(&node, policy, loader);
        Self { clock, bus, node, store, cache }
    }

    /// Puts record 1 at version 1 into the store and into memory.
    pub(crate) async fn warm(self) -> Self {
        self.store.put(1, 1);
        assert_eq!(self.read(1).await, Some(1));
        self
    }

    /// Puts record 1 at this version into the store, and starts a read whose load is held at the gate.
    pub(crate) async fn loading(version: u64) -> (Self, Gate, JoinHandle<Option<u64>>) {
        let stage = Self::new();
        stage.store.put(1, version);
        let mut gate = stage.store.gate();
        let read = stage.spawn_read(1);
        gate.entered().await;
        (stage, gate, read)
    }

    /// The version that a cached read answers.
    pub(crate) async fn read(&self, key: u64) -> Option<u64> {
        version(self.cache.get(&key).await.unwrap())
    }

    pub(crate) async fn read_with(&self, key: u64, consistency: &Consistency) -> Option<u64> {
        version(self.cache.get_with(&key, consistency).await.unwrap())
    }

    /// A cached read in a task of its own.
    pub(crate) fn spawn_read(&self, key: u64) -> JoinHandle<Option<u64>> {
        let cache = self.cache.clone();
        tokio::spawn(async move { version(cache.get(&key).await.unwrap()) })
    }

    /// A strong read in a task of its own.
    pub(crate) fn spawn_strong(&self, key: u64) -> JoinHandle<Option<u64>> {
        let cache = self.cache.clone();
        tokio::spawn(async move { version(cache.get_with(&key, &Consistency::Strong).await.unwrap()) })
    }

    /// Version in memory.
    pub(crate) fn cached(&self, key: u64) -> Option<u64> {
        version(self.cache.peek(&key))
    }

    pub(crate) fn stats(&self) -> Stats {
        self.node.namespace("thing").unwrap().stats()
    }

    /// Invalidates, with a version or, at 0, without.
    pub(crate) async fn invalidate(&self, key: u64, version: u64) {
        let version = (version > 0).then_some(Version::new(version));
        self.cache.invalidate(&[(key, version)]).await.unwrap();
    }
}

pub(crate) fn value(key: u64, version: u64) -> String {
    format!("{key} at {version}")
}

/// The entry's version; if the store returned the entry, its value must have that version.
pub(crate) fn version(entry: Option<Entry<String>>) -> Option<u64> {
    entry.map(|entry| {
        let stored: u64 = entry.value.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(!entry.version.is_versioned() || entry.version.get() == stored, "value and version differ");
        stored
    })
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A node that trusts its memory until a moment.
pub(crate) fn trusted_until(milliseconds: u64) -> impl FnOnce(&mut NodeConfig) {
    move |config| config.trusted_until = Moment::new(milliseconds)
}
