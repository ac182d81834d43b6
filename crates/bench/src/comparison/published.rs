use anyhow::Result;

use super::{SchemeNode, tiers::Tiers};
use crate::cache_node::Store;

/// Cache-aside in two tiers, as most services begin. A reader takes the copy in memory, else the copy in
/// Redis, else loads the record and fills both. A writer commits, deletes the copy in Redis and publishes the
/// key, and every node that receives it drops its own copy. A subscription that broke is made again, and
/// messages that were missed meanwhile stay missed.
///
/// Sources: the cache-aside pattern, <https://learn.microsoft.com/azure/architecture/patterns/cache-aside>;
/// with memory in front and a channel of Redis to drop it,
/// <https://docs.servicestack.net/redis/caching-patterns>.
pub(super) struct Published(Tiers);

impl Published {
    /// A node over the Redis at this address, which has to answer.
    pub(super) async fn start(url: &str, store: &Store) -> Result<Self> {
        Ok(Self(Tiers::connect(url, store).await?))
    }
}

#[async_trait::async_trait]
impl SchemeNode for Published {
    async fn read(&self, key: u64) -> Result<u64> {
        if let Some(version) = self.0.memory.get(&key) {
            return Ok(version);
        }
        let version = self.0.below(key).await?;
        self.0.memory.insert(key, version);
        Ok(version)
    }

    async fn write(&self, key: u64) -> Result<u64> {
        Ok(self.0.write(key).await)
    }
}
