//! Gateway and presence calls that tests share.

#![allow(dead_code, unreachable_pub, reason = "each executable uses a part")]

use std::time::Duration;

use kith_proto::presence::v1::{presence_service_client::PresenceServiceClient, *};
use tonic::{Status, Streaming, transport::Channel};

use crate::node::TestNode;

const PATIENCE: Duration = Duration::from_secs(30);

/// A node with presence.
pub trait PresenceNode {
    fn presence(&self) -> PresenceServiceClient<Channel>;
}

impl PresenceNode for TestNode {
    fn presence(&self) -> PresenceServiceClient<Channel> {
        PresenceServiceClient::new(self.channel.clone())
    }
}

/// A connection server.
#[derive(Clone)]
pub struct Gateway {
    pub id: String,
    pub token: String,
}

impl Gateway {
    /// Makes a gateway that the node does not know.
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), token: String::new() }
    }

    /// Makes a gateway and registers it.
    pub async fn of(node: &impl PresenceNode, id: &str) -> Self {
        let mut gateway = Self::new(id);
        gateway.beat(node, &[]).await.unwrap();
        gateway
    }

    /// Sends a heartbeat. Returns the missing sessions.
    pub async fn beat(
        &mut self,
        node: &impl PresenceNode,
        sessions: &[(i64, &str)],
    ) -> Result<Vec<(i64, String)>, Status> {
        let name = |(user_id, device_id): &(i64, &str)| SessionName {
            user_id: *user_id,
            device_id: (*device_id).to_owned(),
        };
        let request = HeartbeatRequest {
            gateway_id: self.id.clone(),
            gateway_token: self.token.clone(),
            sessions: sessions.iter().map(name).collect(),
        };
        let answer = node.presence().heartbeat(request).await?.into_inner();
        self.token = answer.gateway_token;
        Ok(answer.unknown_sessions.into_iter().map(|name| (name.user_id, name.device_id)).collect())
    }
}

pub async fn open(
    node: &impl PresenceNode,
    gateway: &mut Gateway,
    user_id: i64,
    device: &str,
) -> Result<OpenSessionResponse, Status> {
    let request = OpenSessionRequest {
        user_id,
        device_id: device.to_owned(),
        gateway_id: gateway.id.clone(),
        gateway_token: gateway.token.clone(),
    };
    let answer = node.presence().open_session(request).await?.into_inner();
    gateway.token.clone_from(&answer.gateway_token);
    Ok(answer)
}

/// Closes a session. Returns the user's version.
pub async fn close(
    node: &impl PresenceNode,
    gateway: &mut Gateway,
    user_id: i64,
    device: &str,
) -> Result<i64, Status> {
    let request = CloseSessionRequest {
        user_id,
        device_id: device.to_owned(),
        gateway_id: gateway.id.clone(),
        gateway_token: gateway.token.clone(),
    };
    Ok(node.presence().close_session(request).await?.into_inner().session_version)
}

pub async fn state(node: &impl PresenceNode, user_id: i64) -> PresenceState {
    let answer = node.presence().get_presence(GetPresenceRequest { user_id }).await.unwrap();
    answer.into_inner().presence.unwrap().state()
}

pub async fn counted(node: &impl PresenceNode, group_id: i64) -> i64 {
    let request = CountActiveMembersRequest { group_id, consistency: None };
    node.presence().count_active_members(request).await.unwrap().into_inner().count
}

pub async fn gateways_of(node: &impl PresenceNode, group_id: i64) -> Vec<(String, i64)> {
    let request = ListActiveGatewaysRequest { group_id, consistency: None };
    let answer = node.presence().list_active_gateways(request).await.unwrap().into_inner();
    answer.gateways.into_iter().map(|gateway| (gateway.gateway_id, gateway.count)).collect()
}

pub async fn online_in(node: &impl PresenceNode, group_id: i64) -> Vec<i64> {
    let request = ListActiveMembersRequest { group_id, ..Default::default() };
    let answer = node.presence().list_active_members(request).await.unwrap().into_inner();
    answer.members.iter().map(|member| member.user_id).collect()
}

pub async fn watch(node: &impl PresenceNode, user_ids: &[i64]) -> Streaming<WatchPresenceResponse> {
    let request = WatchPresenceRequest { user_ids: user_ids.to_vec() };
    node.presence().watch_presence(request).await.unwrap().into_inner()
}

/// Returns the next events.
pub async fn events(watch: &mut Streaming<WatchPresenceResponse>, count: usize) -> Vec<(i64, PresenceState)> {
    let mut events = Vec::new();
    while events.len() < count {
        let response = tokio::time::timeout(PATIENCE, watch.message()).await.expect("a response in time");
        let presence = response.unwrap().expect("the stream goes on").presence.unwrap();
        events.push((presence.user_id, presence.state()));
    }
    events
}
