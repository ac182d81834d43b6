use std::sync::Arc;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use kith_cache::remote::{
    SharedBackend,
    redis::{RedisOptions, RedisShared},
};
use kith_delivery::Sequences;
use kith_store::SequenceName;

use super::{NumberNode, store::OneSequenceStore};
use crate::cache_node::{CacheNode, Store, secret, sequences};

/// A node as the program assembles it: it follows the epoch.
pub(super) struct KithNumbers {
    sequences: Sequences,
    name: SequenceName,
}

impl KithNumbers {
    pub(super) async fn start(id: u64, url: &str, epochs: &Store, ends: &OneSequenceStore) -> Result<Self> {
        let options = RedisOptions { url: url.to_owned(), mac: Some(secret()), ..RedisOptions::default() };
        let shared: Arc<dyn SharedBackend> = RedisShared::connect(options.clone()).await?;
        let node = CacheNode::start(id, &shared, Arc::clone(&shared), Arc::new(epochs.clone()));
        node.until_trusted().await?;
        let sequences = sequences(options, node, Arc::new(ends.clone())).await?;
        Ok(Self { sequences, name: "numbers".parse()? })
    }
}

#[async_trait]
impl NumberNode for KithNumbers {
    async fn next(&self) -> Result<i64> {
        let ranges = self.sequences.reserve(&self.name, 1, 0).await?;
        Ok(ranges.first().context("no number was reserved")?.first)
    }
}
