use async_trait::async_trait;
use kith_store::{CountsRebuilt, EdgeUpkeep, EdgesVerified, RemovedEdges, StoreError, UserId};

use super::{error::malformed, session::Cql};

#[async_trait]
impl EdgeUpkeep for Cql {
    async fn verify_edges(&self, _: Option<&[u8]>, _: usize, _: bool) -> Result<EdgesVerified, StoreError> {
        Err(malformed("mark"))
    }

    async fn rebuild_counts(&self, _: Option<&[u8]>, _: usize) -> Result<CountsRebuilt, StoreError> {
        Err(malformed("mark"))
    }

    async fn remove_edges(&self, _: UserId, _: usize) -> Result<RemovedEdges, StoreError> {
        Err(malformed("mark"))
    }
}
