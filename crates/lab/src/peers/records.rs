use std::{fmt, sync::Arc};

use kith_cache::{
    CacheError, Change, Consistency, Entry, Node, Policy, TieredCache, Version,
    remote::{Codec, Sharing, UNTOLD},
};

use super::Store;

/// Bytes of a record where nodes share it, beside its version: about those of a user.
const PADDING: usize = 292;

/// Records of one namespace on one node. In the store its keys begin at a number of its own.
pub struct Records {
    cache: TieredCache<u64, u64>,
    store: Store,
    first: u64,
}

impl Records {
    pub(super) fn new(
        node: &Node,
        policy: Policy<u64>,
        store: &Store,
        sharing: &Sharing,
        first: u64,
    ) -> Self {
        let cache = TieredCache::shared(node, policy, Arc::new(store.clone()), sharing, Arc::new(Padded));
        Self { cache, store: store.clone(), first }
    }

    /// Commits the next version of a record and publishes it, as the owned task of a write does. Returns the version,
    /// and whether it was published by now.
    ///
    /// # Errors
    /// If the write is not acknowledged.
    pub async fn write(&self, key: u64) -> Result<(u64, bool), CacheError> {
        let key = self.first + key;
        let guard = self.cache.begin_write(&[key]).await;
        let version = self.store.commit(key);
        let change = Change::Put { value: Arc::new(version), version: Version::new(version) };
        let token = guard.committed(vec![(key, change)]).await?;
        let told = token.positions().iter().all(|position| position.number != UNTOLD);
        self.store.acknowledge(key, version, told);
        Ok((version, told))
    }

    /// The version that a cached read gives; 0: absent.
    ///
    /// # Errors
    /// When the read fails.
    pub async fn read(&self, key: u64) -> Result<u64, CacheError> {
        let answer = self.cache.get_with(&(self.first + key), &Consistency::Cached).await?;
        Ok(answer.map_or(0, |entry: Entry<u64>| *entry.value))
    }

    /// The versions of many records, in their order; 0: absent.
    ///
    /// # Errors
    /// When one of the reads fails.
    pub async fn read_many(&self, keys: &[u64]) -> Result<Vec<u64>, CacheError> {
        let keys: Vec<u64> = keys.iter().map(|key| self.first + key).collect();
        let answers = self.cache.get_many(&keys, &Consistency::Cached).await;
        answers.into_iter().map(|answer| Ok(answer?.map_or(0, |entry| *entry.value))).collect()
    }

    /// The cache.
    #[must_use]
    pub const fn cache(&self) -> &TieredCache<u64, u64> {
        &self.cache
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Records").field(&self.cache).finish()
    }
}

/// A version, and bytes to the size of a record.
#[derive(Debug)]
struct Padded;

impl Codec<u64> for Padded {
    fn schema(&self) -> u16 {
        1
    }

    fn encode(&self, value: &u64) -> Vec<u8> {
        [&value.to_be_bytes()[..], &[0; PADDING]].concat()
    }

    fn decode(&self, bytes: &[u8]) -> Option<u64> {
        let (version, padding) = bytes.split_first_chunk::<8>()?;
        (padding.len() == PADDING).then(|| u64::from_be_bytes(*version))
    }
}
