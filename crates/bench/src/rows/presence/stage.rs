//! A node over a Redis of its own.

use anyhow::{Context as _, Result};
use kith_lab_servers::{imported::fill_up_to, redis_server::RedisServer, usage};
use kith_proto::presence::v1::presence_service_client::PresenceServiceClient;
use tonic::transport::Channel;

use super::raw::RawPresence;
use crate::{
    claims::Plan,
    rows::relations::{Keyspace, NodeProcess},
};

/// Both sides.
pub(super) struct PresenceStage {
    pub(super) redis: RedisServer,
    pub(super) raw: RawPresence,
    pub(super) node: NodeProcess,
    keyspace: Keyspace,
}

impl PresenceStage {
    /// `None` where the plan names no servers.
    pub(super) async fn start(plan: &Plan, name: &str) -> Result<Option<Self>> {
        let Some(keyspace) = Keyspace::open(plan, name).await? else { return Ok(None) };
        let redis = RedisServer::start(&[]).await?;
        let node = keyspace.served(plan, Some(&redis.uri())).await?;
        let raw = RawPresence::connect(&redis.uri()).await?;
        Ok(Some(Self { redis, raw, node, keyspace }))
    }

    /// Makes the users from 1 on.
    pub(super) async fn with_users(&self, users: i64) -> Result<()> {
        fill_up_to(self.channel(), users).await
    }

    pub(super) fn channel(&self) -> Channel {
        self.node.channel.clone()
    }

    pub(super) fn presence(&self) -> PresenceServiceClient<Channel> {
        PresenceServiceClient::new(self.channel())
    }

    /// Seconds of processor time that Redis has taken, and commands that it has done, so far.
    pub(super) async fn redis_taken(&self) -> Result<(f64, f64)> {
        let commands = self.redis.info("total_commands_processed").await?;
        let commands = commands.parse().context("the number of commands is none")?;
        Ok((usage::cpu_seconds(self.redis.id()?)?, commands))
    }

    pub(super) async fn remove(self, plan: &Plan) -> Result<()> {
        drop(self.node);
        self.keyspace.remove(plan).await
    }
}
