use std::time::Duration;

use async_trait::async_trait;
use kith_store::{
    Applied, Block, BlockChange, BlockList, BlockPatch, BlockStore, CountsRebuilt, Edge, EdgeUpkeep,
    EdgesVerified, Follow, FollowCounts, FollowList, FollowStore, ImportedFollow, Outcome, Place,
    RemovedEdges, StoreError, Stored, Timestamp, UserId, Version, Write,
};

use super::error::unavailable;

/// The relations of a cluster that has no store for them: all of them are unavailable.
#[derive(Debug)]
pub(crate) struct NoRelations;

fn absent<T>() -> Result<T, StoreError> {
    Err(unavailable("no store of relations is configured", Outcome::NotApplied))
}

#[async_trait]
impl FollowStore for NoRelations {
    async fn follows(&self, _: &[Edge]) -> Result<Vec<(Edge, Stored<Follow>)>, StoreError> {
        absent()
    }

    async fn follow(&self, _: Edge, _: Duration, _: Write) -> Result<Applied<Follow>, StoreError> {
        absent()
    }

    async fn unfollow(&self, _: Edge, _: Write) -> Result<Applied<Version>, StoreError> {
        absent()
    }

    async fn follow_list(
        &self,
        _: UserId,
        _: FollowList,
        _: Option<Place>,
        _: usize,
    ) -> Result<Vec<Follow>, StoreError> {
        absent()
    }

    async fn follow_counts(&self, _: &[UserId]) -> Result<Vec<FollowCounts>, StoreError> {
        absent()
    }

    async fn import_follows(&self, _: &[ImportedFollow], _: Timestamp) -> Result<(), StoreError> {
        absent()
    }
}

#[async_trait]
impl BlockStore for NoRelations {
    async fn blocks(&self, _: &[Edge]) -> Result<Vec<(Edge, Stored<Block>)>, StoreError> {
        absent()
    }

    async fn set_block(&self, _: Edge, _: BlockPatch, _: Write) -> Result<Applied<BlockChange>, StoreError> {
        absent()
    }

    async fn block_list(
        &self,
        _: UserId,
        _: BlockList,
        _: Option<Place>,
        _: usize,
    ) -> Result<Vec<Block>, StoreError> {
        absent()
    }
}

#[async_trait]
impl EdgeUpkeep for NoRelations {
    async fn verify_edges(&self, _: Option<&[u8]>, _: usize, _: bool) -> Result<EdgesVerified, StoreError> {
        absent()
    }

    async fn rebuild_counts(&self, _: Option<&[u8]>, _: usize) -> Result<CountsRebuilt, StoreError> {
        absent()
    }

    async fn remove_edges(&self, _: UserId, _: usize) -> Result<RemovedEdges, StoreError> {
        absent()
    }

    /// There is nothing to be removed.
    async fn note_removal(&self, _: UserId, _: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }

    async fn removals(&self, _: usize) -> Result<Vec<(UserId, Timestamp)>, StoreError> {
        Ok(Vec::new())
    }

    async fn end_removal(&self, _: UserId, _: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }
}
