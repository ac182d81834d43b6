use anyhow::{Result, anyhow};
use tokio::runtime::Handle;

use super::{SchemeNode, tiers::Tiers};
use crate::cache_node::Store;

/// moka as its documentation shows it: `get_with` coalesces simultaneous loads for a key on a node, and
/// `invalidate` drops the copy when a message says that the record has changed. Below it is Redis: read,
/// filled and deleted from as cache-aside does.
///
/// Here it is `try_get_with`, which is the same for loads that may fail, on a thread where it may block.
///
/// Sources: <https://docs.rs/moka/0.12.16/moka/sync/struct.Cache.html#method.get_with> and
/// <https://docs.rs/moka/0.12.16/moka/sync/struct.Cache.html#method.invalidate>.
pub(super) struct Coalesced(Tiers);

impl Coalesced {
    /// A node over the Redis at this address, which has to answer.
    pub(super) async fn start(url: &str, store: &Store) -> Result<Self> {
        Ok(Self(Tiers::connect(url, store).await?))
    }
}

#[async_trait::async_trait]
impl SchemeNode for Coalesced {
    async fn read(&self, key: u64) -> Result<u64> {
        if let Some(version) = self.0.memory.get(&key) {
            return Ok(version);
        }
        let (tiers, runtime) = (self.0.clone(), Handle::current());
        let loaded = tokio::task::spawn_blocking(move || {
            tiers.memory.try_get_with(key, || runtime.block_on(tiers.below(key)))
        });
        loaded.await?.map_err(|error| anyhow!("{error:#}"))
    }

    async fn write(&self, key: u64) -> Result<u64> {
        Ok(self.0.write(key).await)
    }
}
