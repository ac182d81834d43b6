//! The edge over a test service, on its own port, and callers that may break the protocol.

#![allow(dead_code, unreachable_pub, reason = "each executable uses a part")]

pub mod raw;
pub mod service;

use std::{net::SocketAddr, time::Duration};

use kith_proto::user::v1::{GetUserResponse, user_service_client::UserServiceClient};
use kith_server::{
    config::Config,
    edge::{Edge, Routes},
    health::{Reporter, State},
    transport::{Connections, Port},
};
use tokio::task::JoinHandle;
use tonic::{
    Code, Response, Status,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_types::StatusExt as _;

use self::service::{CallLog, FakePresence, FakeUsers};

/// An edge that serves.
pub struct ServedEdge {
    pub address: SocketAddr,
    pub edge: Edge,
    pub health: Reporter,
    pub connections: Connections,
    pub seen: CallLog,
}

/// Makes a configuration on free ports.
pub fn config() -> Config {
    let mut config = Config::default();
    config.listen.set_port(0);
    config.operations.listen.set_port(0);
    config
}

pub async fn serve(change: impl FnOnce(&mut Config)) -> ServedEdge {
    serve_with(change, |routes| routes).await
}

/// Like [`serve`], but with additional services.
pub async fn serve_with(change: impl FnOnce(&mut Config), more: impl FnOnce(Routes) -> Routes) -> ServedEdge {
    serve_by(|edge| edge, change, more).await
}

/// Like [`serve_with`], but with a changed edge.
pub async fn serve_by(
    edged: impl FnOnce(Edge) -> Edge,
    change: impl FnOnce(&mut Config),
    more: impl FnOnce(Routes) -> Routes,
) -> ServedEdge {
    let mut config = config();
    change(&mut config);
    let health = Reporter::new();
    let edge = edged(Edge::new(Routes::new(health.service()), &config.limits));
    let (users, seen) = FakeUsers::new();
    edge.open(more(users.routes(config.limits.batch_message_bytes).add_service(FakePresence)));
    health.set(State::Serving);
    let port = Port::bind(&config).await.unwrap();
    let address = port.address();
    let connections = port.serve(edge.clone(), &config.limits, health.clone());
    ServedEdge { address, edge, health, connections, seen }
}

impl ServedEdge {
    pub async fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    /// Opens a channel whose peer has proved itself.
    pub async fn known_channel(&self) -> Channel {
        let channel = self.channel().await;
        UserServiceClient::new(channel.clone()).get_user(service::get(service::FINE)).await.unwrap();
        channel
    }

    pub async fn users(&self) -> UserServiceClient<Channel> {
        UserServiceClient::new(self.channel().await)
    }

    /// Makes a call that its handler holds until [`CallLog::release`].
    pub async fn held_call(&self) -> JoinHandle<Result<Response<GetUserResponse>, Status>> {
        let (mut client, before) = (self.users().await, self.seen.calls());
        let held = tokio::spawn(async move { client.get_user(service::get(service::HELD)).await });
        until("the call is with its handler", || self.seen.calls() > before).await;
        held
    }

    /// Checks that health and a valid call are answered, which must hold after every bad call.
    pub async fn assert_healthy(&self) {
        assert_eq!(self.health_says().await, ServingStatus::Serving);
        let answer = self.users().await.get_user(service::get(service::FINE)).await;
        assert!(answer.is_ok(), "{answer:?}");
    }

    pub async fn health_says(&self) -> ServingStatus {
        let mut health = HealthClient::new(self.channel().await);
        let answer = health.check(HealthCheckRequest::default()).await.unwrap();
        ServingStatus::try_from(answer.into_inner().status).unwrap()
    }
}

/// Waits, within a bound, until `holds` returns true.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(10), waited).await.is_ok(), "in vain: {what}");
}

/// Checks an error's code and reason, and that it repeats no decoder text.
#[track_caller]
pub fn assert_refused(status: &Status, code: Code, reason: &str) {
    assert_eq!(status.code(), code, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().expect("an ErrorInfo");
    assert_eq!((info.reason.as_str(), info.domain.as_str()), (reason, "kith"), "{status:?}");
    assert!(!status.message().contains("Protobuf"), "{status:?}");
}
