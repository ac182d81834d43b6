//! Peers that prove nothing cannot keep others from these resources.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use kith_server::{auth::Callers, config::Config, health::State};
use serde_json::json;
use tokio::net::TcpStream;
use tonic::{Code, Status, Streaming, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_client::HealthClient};

use crate::{
    edge::{
        ServedEdge, assert_refused, serve, serve_by,
        service::{FINE, get},
        until,
    },
    http::{Connection, GET_USER, JSON, request},
    signing::Signer,
    sockets::{Socket, messages::FakeMessages, opening},
};

const PLACES: usize = 10;
const MANY: usize = 3 * PLACES;
const ANN: i64 = 7;

/// Starts an edge that accepts only this signer's tokens.
async fn closed(signer: &Signer, change: impl FnOnce(&mut Config)) -> ServedEdge {
    let tokens = signer.tokens();
    let with_tokens =
        |edge: kith_server::edge::Edge| edge.with_credentials(Arc::new(Callers::new(Vec::new())), tokens);
    serve_by(with_tokens, change, |routes| routes.add_service(FakeMessages::new())).await
}

/// Opens connections that send nothing.
async fn silent(address: SocketAddr) -> Vec<TcpStream> {
    let mut silent = Vec::new();
    for _ in 0..MANY {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    silent
}

fn few_connections(config: &mut Config) {
    config.limits.connections = PLACES;
    config.limits.handshake = Duration::from_secs(60);
}

#[tokio::test]
async fn strangers_make_room_for_newcomers() {
    let node = serve(few_connections).await;
    let mut known = node.users().await;
    assert!(known.get_user(get(FINE)).await.is_ok());
    let mut held = silent(node.address).await;
    let mut newcomers = Vec::new();
    for _ in 0..PLACES - 1 {
        let mut newcomer = node.users().await;
        assert!(newcomer.get_user(get(FINE)).await.is_ok());
        newcomers.push(newcomer);
    }
    for caller in newcomers.iter_mut().chain([&mut known]) {
        assert!(caller.get_user(get(FINE)).await.is_ok(), "callers keep their places");
    }
    assert!(Connection::over(held.remove(0)).is_closed().await);
    until("all connections are of callers", || node.connections.open() == PLACES).await;
    assert!(node.health.remarks().iter().any(|remark| remark.reason == "connections_displaced"));
}

#[tokio::test]
async fn refused_calls_prove_nothing() {
    let signer = Signer::new(1);
    let node = closed(&signer, few_connections).await;
    let bearer = format!("Bearer {}", signer.token(ANN));
    let message = json!({"userId": FINE}).to_string();
    let [with, without] = [&[JSON, ("authorization", bearer.as_str())][..], &[JSON]]
        .map(|headers| request("POST", GET_USER, headers, message.as_bytes()));
    let mut stranger = Connection::open(node.address).await;
    let mut caller = Connection::open(node.address).await;
    for (connection, call, code) in [(&mut stranger, &without, 401), (&mut caller, &with, 200)] {
        connection.write(call).await;
        assert_eq!(connection.answer().await.code, code);
    }
    let _held = silent(node.address).await;
    assert!(stranger.is_closed().await);
    caller.write(&with).await;
    assert_eq!(caller.answer().await.code, 200);
}

async fn watched(channel: Channel) -> Result<Streaming<HealthCheckResponse>, Status> {
    let mut watch = HealthClient::new(channel).watch(HealthCheckRequest::default()).await?.into_inner();
    assert!(watch.message().await?.is_some());
    Ok(watch)
}

#[tokio::test]
async fn health_watches_of_strangers_give_way() {
    let node = serve(|config| config.limits.health_watches = PLACES).await;
    let channel = node.channel().await;
    let mut known = watched(channel.clone()).await.unwrap();
    let call =
        kith_proto::user::v1::user_service_client::UserServiceClient::new(channel).get_user(get(FINE)).await;
    assert!(call.is_ok(), "it is that of a caller from now on");
    let mut held = Vec::new();
    for _ in 0..MANY {
        held.push(watched(node.channel().await).await.expect("a newcomer has its watch"));
    }
    let first = held[0].message().await.unwrap_err();
    assert_refused(&first, Code::ResourceExhausted, "OVERLOADED");
    node.health.set(State::Stopping);
    assert!(known.message().await.unwrap().is_some());
    assert!(held.last_mut().unwrap().message().await.unwrap().is_some());
}

#[tokio::test]
async fn sockets_without_hello_give_way() {
    let signer = Signer::new(1);
    let node = closed(&signer, |config| {
        config.ws.enabled = true;
        config.ws.sockets_waiting = PLACES;
    })
    .await;
    let live = async || {
        let mut socket = Socket::greeted(node.address, &json!({"credential": signer.token(ANN)})).await;
        socket.until("live").await;
        socket
    };
    let mut early = live().await;
    let mut held = Vec::new();
    for _ in 0..MANY {
        let mut socket = Connection::open(node.address).await;
        socket.write(opening(&[])).await;
        assert_eq!(socket.answer().await.code, 101);
        held.push(socket);
    }
    assert!(held[0].is_closed().await);
    for socket in [&mut live().await, &mut early] {
        let answer = socket.call("GetUser", &json!({"userId": FINE})).await;
        assert!(answer.get("answer").is_some(), "{answer}");
    }
}
