//! Loads follows and blocks.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{Block, BlockStore, Edge, Follow, FollowStore};

use crate::rpc::versions::loaded_all;

/// Loads follows from the store into the tiers.
#[derive(Debug)]
pub(super) struct FollowLoader(pub(super) Arc<dyn FollowStore>);

/// Loads what users have set about others.
#[derive(Debug)]
pub(super) struct BlockLoader(pub(super) Arc<dyn BlockStore>);

#[async_trait]
impl Loader<Edge, Follow> for FollowLoader {
    /// Every read of the store sees all changes that were acknowledged before it, so strong reads need no
    /// other statement.
    async fn load_many(
        &self,
        edges: &[Edge],
        _options: LoadOptions,
    ) -> Result<Vec<(Edge, Loaded<Follow>)>, LoadError> {
        loaded_all(self.0.follows(edges).await)
    }
}

#[async_trait]
impl Loader<Edge, Block> for BlockLoader {
    /// Like the follow loader, needs no other statement for strong reads.
    async fn load_many(
        &self,
        edges: &[Edge],
        _options: LoadOptions,
    ) -> Result<Vec<(Edge, Loaded<Block>)>, LoadError> {
        loaded_all(self.0.blocks(edges).await)
    }
}
