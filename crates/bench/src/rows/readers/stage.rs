//! A cluster node, and clients for the same servers.

use anyhow::{Context as _, Result};
use kith_store_cluster::MongoOptions;
use tonic::transport::Channel;

use super::raw::RawMarks;
use crate::{
    claims::Plan,
    rows::relations::{Keyspace, NodeProcess},
};

pub(super) struct ReaderStage {
    pub(super) raw: RawMarks,
    node: NodeProcess,
    keyspace: Keyspace,
}

impl ReaderStage {
    /// Starts the stage; `None` if the plan names no servers.
    pub(super) async fn start(plan: &Plan, name: &str) -> Result<Option<Self>> {
        let Some(redis) = plan.redis.as_deref() else { return Ok(None) };
        let Some(keyspace) = Keyspace::open(plan, name).await? else { return Ok(None) };
        let node = keyspace.served(plan, Some(redis)).await?;
        let uri = plan.mongodb.as_deref().context("there was a MongoDB")?;
        let raw = RawMarks::connect(&MongoOptions::new(uri, keyspace.name()), redis).await?;
        Ok(Some(Self { raw, node, keyspace }))
    }

    pub(super) fn channel(&self) -> Channel {
        self.node.channel.clone()
    }

    pub(super) async fn remove(self, plan: &Plan) -> Result<()> {
        self.raw.remove().await?;
        drop(self.node);
        self.keyspace.remove(plan).await
    }
}
