use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::remote::{Epochs, SharedError};
use kith_store::NodeStore;

#[derive(Clone, Debug)]
pub(crate) struct StoreEpochs(pub(crate) Arc<dyn NodeStore>);

#[async_trait]
impl Epochs for StoreEpochs {
    async fn current(&self) -> Result<(u64, String), SharedError> {
        let epoch = self.0.epoch().await.map_err(|_| SharedError::Unavailable)?;
        Ok((epoch.number, epoch.server))
    }

    async fn raise(&self, seen: u64, server: &str) -> Result<u64, SharedError> {
        let epoch = self.0.raise_epoch(seen, server).await.map_err(|_| SharedError::Unavailable)?;
        tracing::warn!(seen, epoch = epoch.number, "copies that nodes share are given up: a new epoch");
        Ok(epoch.number)
    }
}
