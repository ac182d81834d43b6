//! The shared tier between memory and the store.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{Acquired, Cell, Filled, Header, Kind, Queue, Shared};
use crate::{
    CacheError, Key, LoadOptions, Loaded, Node, Tier, Version, guards,
    source::{Fetched, Source},
};

/// How records of a namespace are written down in the shared tier.
pub trait Codec<V>: fmt::Debug + Send + Sync + 'static {
    /// Form of what [`encode`](Self::encode) writes; another form is a miss.
    fn schema(&self) -> u16;

    /// The record as bytes.
    fn encode(&self, value: &V) -> Vec<u8>;

    /// The record out of bytes, which may be anything. `None`: it is not one; that is a miss.
    fn decode(&self, bytes: &[u8]) -> Option<V>;
}

/// The keys of a namespace in the shared tier: the epoch is part of each, so that a new one makes all copies,
/// leases and tombs of the old one unreachable.
#[must_use]
pub fn address(epoch: u64, namespace: &str, key: &dyn fmt::Display) -> String {
    format!("{epoch}:{namespace}:{key}")
}

/// First pause between two looks for what another load brings, and the longest.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// Asks the shared tier first, and the store for the rest under a lease.
pub(crate) struct SharedTier<K, V> {
    pub(crate) node: Node,
    pub(crate) namespace: &'static str,
    pub(crate) shared: Arc<dyn Shared>,
    pub(crate) codec: Arc<dyn Codec<V>>,
    /// Changes that the shared tier does not know of yet.
    pub(crate) queue: Arc<Queue>,
    pub(crate) below: Box<dyn Source<K, V>>,
    /// How long a load waits for the lease of another.
    pub(crate) patience: Duration,
}

/// What is still to be answered of one fetch: places of keys, and their addresses.
struct Missing<V> {
    answers: Vec<Option<Fetched<V>>>,
    addresses: Vec<String>,
    token: u64,
}

#[async_trait::async_trait]
impl<K: Key, V: Send + Sync + 'static> Source<K, V> for SharedTier<K, V> {
    async fn fetch(&self, keys: &[K], options: LoadOptions) -> Result<Vec<Fetched<V>>, CacheError> {
        let epoch = self.node.epoch();
        let addresses: Vec<String> = keys.iter().map(|key| address(epoch, self.namespace, key)).collect();
        // Copies of what waits to be told are old.
        if epoch < self.queue.barrier() && guards::overflow_raises() {
            return self.below(keys, options).await;
        }
        let untold = guards::queue_reads_store() && addresses.iter().any(|address| self.queue.holds(address));
        if options.strong || untold {
            return self.below(keys, options).await;
        }
        let answers = keys.iter().map(|_| None).collect();
        let mut missing = Missing { answers, addresses, token: self.node.token_number() };
        if self.climb(keys, options, &mut missing).await.is_err() {
            // The shared tier is away: the store answers, within its own bound.
            return self.below(keys, options).await;
        }
        missing.answers.into_iter().map(|answer| answer.ok_or(CacheError::Timeout)).collect()
    }
}

impl<K: Key, V: Send + Sync + 'static> SharedTier<K, V> {
    /// The store, for keys whose answers nobody else is to have.
    async fn below(&self, keys: &[K], options: LoadOptions) -> Result<Vec<Fetched<V>>, CacheError> {
        self.below.fetch(keys, options).await
    }

    async fn climb(
        &self,
        keys: &[K],
        options: LoadOptions,
        missing: &mut Missing<V>,
    ) -> Result<(), CacheError> {
        let until = Instant::now() + self.patience;
        let mut pause = LOOK.0;
        self.look(options, missing).await?;
        loop {
            let leased = self.lease(options, missing).await?;
            self.load(keys, options, missing, &leased).await?;
            if missing.places().is_empty() {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(CacheError::Timeout);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LOOK.1);
        }
    }

    /// One question for all keys.
    async fn look(&self, options: LoadOptions, missing: &mut Missing<V>) -> Result<(), CacheError> {
        let cells = self.shared.read(&missing.addresses).await.map_err(away)?;
        for (place, cell) in cells.into_iter().enumerate() {
            if let Some(cell) = cell {
                missing.answers[place] = self.copy(&cell, options);
            }
        }
        Ok(())
    }

    /// Asks for the leases of what is missing; returns the places that it may load.
    async fn lease(
        &self,
        options: LoadOptions,
        missing: &mut Missing<V>,
    ) -> Result<Vec<(usize, Version)>, CacheError> {
        let places = missing.places();
        let addresses: Vec<String> = places.iter().map(|place| missing.addresses[*place].clone()).collect();
        let mut leased = Vec::new();
        if addresses.is_empty() {
            return Ok(leased);
        }
        let answers = self.shared.acquire(&addresses, missing.token).await.map_err(away)?;
        for (place, acquired) in places.into_iter().zip(answers) {
            match acquired {
                Acquired::Leased { floor } => leased.push((place, floor)),
                Acquired::Wait => {}
                // A copy that may not be served (too old for the reader, or not readable) is passed by.
                Acquired::Hit(cell) => match self.copy(&cell, options) {
                    Some(found) => missing.answers[place] = Some(found),
                    None => leased.push((place, cell.header.version)),
                },
            }
        }
        Ok(leased)
    }

    /// Loads what is leased, and fills it.
    async fn load(
        &self,
        keys: &[K],
        options: LoadOptions,
        missing: &mut Missing<V>,
        leased: &[(usize, Version)],
    ) -> Result<(), CacheError> {
        if leased.is_empty() {
            return Ok(());
        }
        let asked: Vec<K> = leased.iter().map(|(place, _)| keys[*place].clone()).collect();
        let floor = leased.iter().map(|(_, floor)| *floor).max().unwrap_or_default();
        let options = LoadOptions { min_version: options.min_version.max(floor), ..options };
        let loaded = self.below.fetch(&asked, options).await;
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                let addresses: Vec<_> =
                    leased.iter().map(|(place, _)| missing.addresses[*place].clone()).collect();
                // The leases run out by themselves if this does not arrive.
                let _gone = self.shared.release(&addresses, missing.token).await;
                return Err(error);
            }
        };
        let cells: Vec<(String, Cell)> = leased
            .iter()
            .zip(&loaded)
            .map(|((place, _), fetched)| {
                (missing.addresses[*place].clone(), self.cell(&fetched.loaded, missing.token))
            })
            .collect();
        let filled = self.shared.fill(&cells).await;
        for (at, ((place, _), fetched)) in leased.iter().zip(loaded).enumerate() {
            let accepted = filled.as_ref().is_ok_and(|filled| filled[at] == Filled::Stored);
            missing.answers[*place] = Some(Fetched { keep: accepted, ..fetched });
        }
        Ok(())
    }

    fn copy(&self, cell: &Cell, options: LoadOptions) -> Option<Fetched<V>> {
        let version = cell.header.version;
        if version < options.min_version {
            return None;
        }
        let loaded = match cell.header.kind {
            Kind::Value if cell.header.schema == self.codec.schema() => {
                Loaded::Found { value: Arc::new(self.codec.decode(&cell.payload)?), version }
            }
            Kind::Null => Loaded::Absent { version },
            Kind::Value | Kind::Tomb | Kind::Lease => return None,
        };
        Some(Fetched { loaded, tier: Tier::Redis, keep: true })
    }

    fn cell(&self, loaded: &Loaded<V>, token: u64) -> Cell {
        match loaded {
            Loaded::Found { value, version } => Cell {
                header: Header { schema: self.codec.schema(), ..Header::bare(Kind::Value, *version, token) },
                payload: self.codec.encode(value),
            },
            Loaded::Absent { version } => Cell::bare(Kind::Null, *version, token),
        }
    }
}

impl<V> Missing<V> {
    fn places(&self) -> Vec<usize> {
        self.answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| answer.is_none())
            .map(|(place, _)| place)
            .collect()
    }
}

fn away(error: super::SharedError) -> CacheError {
    CacheError::Bus(crate::BusError::new(error))
}
