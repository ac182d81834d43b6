//! Two nodes over one Redis, and bare servers.

use anyhow::Result;
use kith_lab_servers::{imported::fill_up_to, redis_server::RedisServer};
use kith_proto::message::v1::{ReceiveResponse, message_service_client::MessageServiceClient};
use tonic::{Streaming, transport::Channel};

use super::stream::{connections, of_user, receive_bare};
use crate::{
    claims::Plan,
    rows::relations::{Keyspace, NodeProcess},
    served::ServerProcess,
};

pub(super) type ReceiverClient = MessageServiceClient<Channel>;

/// Nodes with users.
pub(super) struct ReceiveStage {
    pub(super) nodes: Vec<NodeProcess>,
    pub(super) users: i64,
    pub(super) keyspace: Keyspace,
    redis: RedisServer,
}

impl ReceiveStage {
    /// Two nodes with the users up to an id. `None` where the plan names no servers.
    pub(super) async fn start(plan: &Plan, name: &str, users: i64) -> Result<Option<Self>> {
        let Some(keyspace) = Keyspace::open(plan, name).await? else { return Ok(None) };
        // A separate Redis: its connections are counted.
        let redis = RedisServer::start(&[]).await?;
        let mut nodes = Vec::new();
        for _ in 0..2 {
            nodes.push(keyspace.served(plan, Some(&redis.uri())).await?);
        }
        fill_up_to(nodes[0].channel.clone(), users).await?;
        Ok(Some(Self { nodes, users, keyspace, redis }))
    }

    /// A client for a node, over a connection without streams.
    pub(super) fn client(&self, node: usize) -> ReceiverClient {
        MessageServiceClient::new(self.nodes[node].channel.clone())
    }

    /// Connections to a node for `streams` streams.
    pub(super) async fn connections(&self, node: usize, streams: i64) -> Result<Vec<Channel>> {
        connections(&self.nodes[node].served, streams).await
    }

    pub(super) fn redis(&self) -> String {
        self.redis.uri()
    }

    /// Connections that Redis has.
    pub(super) async fn redis_connections(&self) -> Result<usize> {
        Ok(self.redis.info("connected_clients").await?.parse()?)
    }

    pub(super) async fn remove(self, plan: &Plan) -> Result<()> {
        drop(self.nodes);
        self.keyspace.remove(plan).await
    }
}

/// Servers that only send what they get.
pub(super) struct BareServers {
    pub(super) servers: Vec<ServerProcess>,
}

impl BareServers {
    pub(super) fn start(servers: usize) -> Result<Self> {
        Ok(Self { servers: (0..servers).map(|_| ServerProcess::echo(None)).collect::<Result<_>>()? })
    }

    /// Opens `streams` streams in all, as many to each server.
    pub(super) async fn open(&self, streams: i64) -> Result<Vec<Streaming<ReceiveResponse>>> {
        let mut open = Vec::new();
        let each = streams / i64::try_from(self.servers.len())?;
        for server in &self.servers {
            let channels = connections(server, each).await?;
            for user in 0..each {
                open.push(receive_bare(of_user(&channels, user)).await?);
            }
        }
        Ok(open)
    }
}
