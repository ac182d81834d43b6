//! A node over a Redis that nobody else has.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_proto::{
    presence::v1::presence_service_client::PresenceServiceClient,
    user::v1::user_service_client::UserServiceClient,
};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status, transport::Channel};

use super::raw::Raw;
use crate::{
    bench::Plan,
    redis_server::RedisServer,
    rows::{
        imported::fill,
        relations::{Keyspace, Node},
    },
    usage,
};

/// Users of one import.
const IMPORTED: usize = 5_000;
const DONE_WITHIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// Both sides.
pub(super) struct Stage {
    pub(super) redis: RedisServer,
    pub(super) raw: Raw,
    pub(super) node: Node,
    keyspace: Keyspace,
}

impl Stage {
    /// `None` where the plan names no servers.
    pub(super) async fn start(plan: &Plan, name: &str) -> Result<Option<Self>> {
        let Some(keyspace) = Keyspace::open(plan, name).await? else { return Ok(None) };
        let redis = RedisServer::start(&[]).await?;
        let node = keyspace.served(plan, Some(&redis.uri())).await?;
        let raw = Raw::connect(&redis.uri()).await?;
        Ok(Some(Self { redis, raw, node, keyspace }))
    }

    /// Makes the users from 1 on.
    pub(super) async fn with_users(&self, users: i64) -> Result<()> {
        let ids: Vec<i64> = (1..=users).collect();
        for ids in ids.chunks(IMPORTED) {
            fill(&mut UserServiceClient::new(self.channel()), ids).await?;
        }
        Ok(())
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

    /// Calls until it is done: a node has its bounds, and a machine that has much to do its moments.
    pub(super) async fn until_done<T>(&self, call: impl AsyncFn() -> Result<T, Status>) -> Result<T> {
        let until = Instant::now() + DONE_WITHIN;
        loop {
            match call().await {
                Err(status) if is_of_a_moment(status.code()) && Instant::now() < until => {
                    sleep(PAUSE).await;
                }
                done => return Ok(done?),
            }
        }
    }

    pub(super) async fn remove(self, plan: &Plan) -> Result<()> {
        drop(self.node);
        self.keyspace.remove(plan).await
    }
}

const fn is_of_a_moment(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded)
}
