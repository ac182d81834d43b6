use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{Block, BlockStore, Edge, Follow, FollowStore, Stored};

use crate::rpc::versions::loaded;

/// Loads follows from the store into the tiers.
#[derive(Debug)]
pub(super) struct FollowLoader(pub(super) Arc<dyn FollowStore>);

/// Loads what users have set about others.
#[derive(Debug)]
pub(super) struct BlockLoader(pub(super) Arc<dyn BlockStore>);

#[async_trait]
impl Loader<Edge, Follow> for FollowLoader {
    async fn load(&self, edge: &Edge, options: LoadOptions) -> Result<Loaded<Follow>, LoadError> {
        let found = self.load_many(std::slice::from_ref(edge), options).await?;
        Ok(found.into_iter().next().map_or_else(|| follow(Stored::Never), |(_, follow)| follow))
    }

    /// Every read of the store sees what was acknowledged before it, so strong reads need no other statement.
    async fn load_many(
        &self,
        edges: &[Edge],
        _options: LoadOptions,
    ) -> Result<Vec<(Edge, Loaded<Follow>)>, LoadError> {
        let found = self.0.follows(edges).await.map_err(LoadError::new)?;
        Ok(found.into_iter().map(|(edge, stored)| (edge, follow(stored))).collect())
    }
}

#[async_trait]
impl Loader<Edge, Block> for BlockLoader {
    async fn load(&self, edge: &Edge, options: LoadOptions) -> Result<Loaded<Block>, LoadError> {
        let found = self.load_many(std::slice::from_ref(edge), options).await?;
        Ok(found.into_iter().next().map_or_else(|| block(Stored::Never), |(_, block)| block))
    }

    /// As for follows.
    async fn load_many(
        &self,
        edges: &[Edge],
        _options: LoadOptions,
    ) -> Result<Vec<(Edge, Loaded<Block>)>, LoadError> {
        let found = self.0.blocks(edges).await.map_err(LoadError::new)?;
        Ok(found.into_iter().map(|(edge, stored)| (edge, block(stored))).collect())
    }
}

fn follow(stored: Stored<Follow>) -> Loaded<Follow> {
    loaded(stored, |follow| follow.version)
}

fn block(stored: Stored<Block>) -> Loaded<Block> {
    loaded(stored, |block| block.version)
}
