//! How a node loads records from the store.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use tokio::time::sleep;

use crate::{
    faults::Fault,
    holds::{Call, Direction},
    store::StoreClient,
    truth::Kind,
};

/// Most loads that a node's namespace may have with the store at once.
pub(crate) const LOADS_MAX: usize = 4;

/// Loads the records of one kind for one node.
#[derive(Debug)]
pub(crate) struct StoreLoader {
    client: StoreClient,
    kind: Kind,
    /// Loads that are with the store.
    loading: AtomicU64,
    /// Loads so far; a batch counts as one load.
    pub(crate) loads: AtomicU64,
}

impl StoreLoader {
    pub(crate) fn new(client: &StoreClient, kind: Kind) -> Self {
        Self { client: client.clone(), kind, loading: AtomicU64::new(0), loads: AtomicU64::new(0) }
    }

    /// One round trip.
    async fn ask(&self, keys: &[u64]) -> Result<Vec<(u64, Loaded<u64>)>, LoadError> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let loading = Loading::begin(&self.loading);
        if loading.0.load(Ordering::Relaxed) > LOADS_MAX as u64 {
            self.client.store.truth.report(format!("{loading:?} loads of a node are with the store"));
        }
        self.client.pass(Call::Load, Direction::Request).await;
        let loaded = keys.iter().map(|key| (*key, self.client.store.read((self.kind, *key)))).collect();
        let slow = self.client.faults.has(Fault::SlowStore);
        if slow && self.client.chance.one_in(30) {
            let most = *self.client.chance.pick(&[400, 400, 4_000]);
            sleep(Duration::from_millis(self.client.chance.below(most))).await;
        }
        self.client.pass(Call::Load, Direction::Response).await;
        if slow && self.client.chance.one_in(50) {
            return Err(LoadError::new(std::io::Error::from(std::io::ErrorKind::NotConnected)));
        }
        Ok(loaded)
    }
}

#[derive(Debug)]
struct Loading<'a>(&'a AtomicU64);

impl<'a> Loading<'a> {
    fn begin(loading: &'a AtomicU64) -> Self {
        loading.fetch_add(1, Ordering::Relaxed);
        Self(loading)
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl Loader<u64, u64> for StoreLoader {
    async fn load(&self, key: &u64, _options: LoadOptions) -> Result<Loaded<u64>, LoadError> {
        Ok(self.ask(&[*key]).await?.remove(0).1)
    }

    async fn load_many(
        &self,
        keys: &[u64],
        _options: LoadOptions,
    ) -> Result<Vec<(u64, Loaded<u64>)>, LoadError> {
        self.ask(keys).await
    }
}
