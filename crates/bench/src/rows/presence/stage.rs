//! A node with a separate Redis.

use anyhow::{Result, ensure};
use kith_lab_servers::{imported::fill_up_to, redis_server::RedisServer};
use kith_proto::presence::v1::{
    HeartbeatRequest, OpenSessionRequest, SessionName, presence_service_client::PresenceServiceClient,
};
use tonic::transport::Channel;

use crate::{
    claims::Plan,
    rows::{
        relations::{Keyspace, NodeProcess},
        until_done::until_done,
    },
};

/// The device in every session.
pub(super) const DEVICE: &str = "phone";

pub(super) struct PresenceStage {
    pub(super) redis: RedisServer,
    node: NodeProcess,
    keyspace: Keyspace,
}

impl PresenceStage {
    /// Starts the stage; `None` if the plan names no servers.
    pub(super) async fn start(plan: &Plan, name: &str) -> Result<Option<Self>> {
        let Some(keyspace) = Keyspace::open(plan, name).await? else { return Ok(None) };
        let redis = RedisServer::start(&[]).await?;
        let node = keyspace.served(plan, Some(&redis.uri())).await?;
        Ok(Some(Self { redis, node, keyspace }))
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

    /// Opens a session at a gateway with this token. Returns the next token.
    pub(super) async fn open_session(&self, user_id: i64, gateway: &str, token: &str) -> Result<String> {
        let request = OpenSessionRequest {
            user_id,
            device_id: DEVICE.to_owned(),
            gateway_id: gateway.to_owned(),
            gateway_token: token.to_owned(),
        };
        let opened = until_done(async || self.presence().open_session(request.clone()).await).await?;
        Ok(opened.into_inner().gateway_token)
    }

    /// Renews the sessions at a gateway with this token; all of them exist. Returns the next token.
    pub(super) async fn renew(&self, gateway: &str, token: &str, users: &[i64]) -> Result<String> {
        let name = |user_id: &i64| SessionName { user_id: *user_id, device_id: DEVICE.to_owned() };
        let request = HeartbeatRequest {
            gateway_id: gateway.to_owned(),
            gateway_token: token.to_owned(),
            sessions: users.iter().map(name).collect(),
        };
        let answer =
            until_done(async || self.presence().heartbeat(request.clone()).await).await?.into_inner();
        ensure!(answer.unknown_sessions.is_empty(), "{} sessions are gone", answer.unknown_sessions.len());
        Ok(answer.gateway_token)
    }

    pub(super) async fn remove(self, plan: &Plan) -> Result<()> {
        drop(self.node);
        self.keyspace.remove(plan).await
    }
}
