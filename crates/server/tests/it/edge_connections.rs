//! Connections: their number, their greeting, TLS, and their end.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

use crate::edge::{
    assert_refused, config, serve,
    service::{FINE, get},
    until,
};
use crate::http;
use kith_proto::user::v1::user_service_client::UserServiceClient;
use kith_server::{config::Config, health::State, transport::Port};
use tokio::{io::AsyncReadExt as _, net::TcpStream, time::timeout};
use tonic::{
    Code,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
    health_client::HealthClient,
};

const BOUND: Duration = Duration::from_secs(10);

/// Returns whether the peer closes the connection within the bound.
async fn is_closed(mut socket: TcpStream) -> bool {
    let mut bytes = [0; 64];
    let closed = async { while socket.read(&mut bytes).await.is_ok_and(|count| count > 0) {} };
    timeout(BOUND, closed).await.is_ok()
}

#[tokio::test]
async fn a_peer_that_never_greets_is_let_go() {
    let node = serve(|config| config.limits.handshake = Duration::from_millis(50)).await;
    let silent = TcpStream::connect(node.address).await.unwrap();
    assert!(is_closed(silent).await);
    node.assert_healthy().await;
}

#[tokio::test]
async fn a_peer_that_speaks_no_http_is_let_go() {
    let node = serve(|_| {}).await;
    for bytes in [b"EHLO kith\r\n\r\n".as_slice(), b"\x16\x03\x01\x02\x00\x01\r\n\r\n"] {
        let mut socket = TcpStream::connect(node.address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut socket, bytes).await.unwrap();
        assert!(is_closed(socket).await);
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn connections_above_the_bound_are_closed() {
    let node = serve(|config| config.limits.connections = 2).await;
    let (mut first, mut second) = (node.users().await, node.users().await);
    for caller in [&mut first, &mut second] {
        assert!(caller.get_user(get(FINE)).await.is_ok());
    }
    let third = TcpStream::connect(node.address).await.unwrap();
    assert!(is_closed(third).await);
    assert!(first.get_user(get(FINE)).await.is_ok());
    drop((first, second));
    until("the places are free again", || node.connections.open() == 0).await;
    node.assert_healthy().await;
}

#[tokio::test]
async fn old_connection_is_closed_and_client_returns() {
    let node = serve(|config| config.limits.connection_age = Duration::from_millis(100)).await;
    let mut client = node.users().await;
    assert!(client.get_user(get(FINE)).await.is_ok());
    until("it is gone", || node.connections.open() == 0).await;
    assert!(client.get_user(get(FINE)).await.is_ok(), "over a new connection");
}

#[tokio::test]
async fn a_stop_ends_watches_and_lets_calls_end() {
    let node = serve(|_| {}).await;
    let mut health = HealthClient::new(node.channel().await);
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    let status = |answer: Option<tonic_health::pb::HealthCheckResponse>| answer.unwrap().status;
    assert_eq!(status(watch.message().await.unwrap()), i32::from(ServingStatus::Serving));

    let held = node.held_call().await;

    node.health.set(State::Stopping);
    assert_eq!(status(watch.message().await.unwrap()), i32::from(ServingStatus::NotServing));
    assert!(!held.is_finished(), "health comes first");
    node.edge.close_watches();
    assert_eq!(watch.message().await.unwrap_err().code(), Code::Unavailable);

    let connections = node.connections.clone();
    let closed = tokio::spawn(async move { connections.close(BOUND).await });
    until("no one is let in any more", || std::net::TcpStream::connect(node.address).is_err()).await;
    assert!(!closed.is_finished(), "it waits for the call");
    node.seen.release(1);
    assert!(held.await.unwrap().is_ok(), "the call that had begun is answered");
    assert!(closed.await.unwrap(), "nothing was left behind");
}

/// Opens a health watch on this channel.
async fn watched(channel: Channel) -> Result<tonic::Streaming<HealthCheckResponse>, tonic::Status> {
    let answer = HealthClient::new(channel).watch(HealthCheckRequest::default()).await?;
    let mut watch = answer.into_inner();
    assert!(watch.message().await?.is_some());
    Ok(watch)
}

#[tokio::test]
async fn connection_cannot_take_all_health_watches() {
    let node = serve(|config| {
        config.limits.health_watches = 3;
        config.limits.health_watches_per_connection = 2;
    })
    .await;
    let (one, other) = (node.known_channel().await, node.known_channel().await);
    let mut held = vec![watched(one.clone()).await.unwrap(), watched(one.clone()).await.unwrap()];
    assert_refused(&watched(one).await.unwrap_err(), Code::ResourceExhausted, "OVERLOADED");
    held.push(watched(other.clone()).await.unwrap());
    let full = watched(other.clone()).await.unwrap_err();
    assert_refused(&full, Code::ResourceExhausted, "OVERLOADED");
    node.assert_healthy().await;
    held.pop();
    let again = async { while watched(other.clone()).await.is_err() {} };
    timeout(BOUND, again).await.expect("the place is free again");
}

/// By default, 250 connections may hold 1,000 watches.
#[tokio::test]
async fn health_watch_1001_is_refused_and_calls_go_on() {
    let node = serve(|_| {}).await;
    let limits = Config::default().limits;
    assert_eq!((limits.health_watches, limits.health_watches_per_connection), (1000, 4));
    let mut held = Vec::new();
    for _ in 0..250 {
        let channel = node.known_channel().await;
        for _ in 0..4 {
            held.push(watched(channel.clone()).await.unwrap());
        }
    }
    let full = watched(node.channel().await).await.unwrap_err();
    assert_refused(&full, Code::ResourceExhausted, "OVERLOADED");
    node.assert_healthy().await;
    assert_eq!(node.edge.in_flight(), 0, "a watch takes no slot");
}

#[tokio::test]
async fn health_watches_by_grpc_web_are_bounded_too() {
    let node = serve(|config| config.limits.health_watches = 1).await;
    let _held = watched(node.known_channel().await).await.unwrap();
    let web = [("content-type", "application/grpc-web+proto")];
    let watch = http::request("POST", "/grpc.health.v1.Health/Watch", &web, &[0; 5]);
    let mut connection = http::Connection::open(node.address).await;
    connection.write(watch).await;
    let answer = connection.answer().await;
    assert_eq!(answer.header("grpc-status"), Some("8"), "{answer:?}");
}

#[tokio::test]
async fn stuck_call_is_abandoned_after_the_limit() {
    let node = serve(|_| {}).await;
    let held = node.held_call().await;
    assert!(!node.connections.close(Duration::from_millis(50)).await);
    assert!(held.await.unwrap().is_err());
}

/// Writes a certificate for `localhost` and its key. Returns the authority's certificate.
fn certificate(dir: &std::path::Path, mode: u32) -> (PathBuf, PathBuf, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
    (cert, key, made.cert.pem())
}

#[tokio::test]
async fn tls_calls_are_answered_and_plain_ones_not() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let dir = tempfile::tempdir().unwrap();
    let (cert, key, authority) = certificate(dir.path(), 0o600);
    let node = serve(|config| {
        config.tls.cert_file = Some(cert);
        config.tls.key_file = Some(key);
        config.limits.handshake = Duration::from_millis(500);
    })
    .await;
    let tls =
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority)).domain_name("localhost");
    let endpoint =
        Endpoint::from_shared(format!("https://{}", node.address)).unwrap().tls_config(tls).unwrap();
    let mut client = UserServiceClient::new(endpoint.connect().await.unwrap());
    assert!(client.get_user(get(FINE)).await.is_ok());

    let plain = Endpoint::from_shared(format!("http://{}", node.address)).unwrap().connect_lazy();
    assert!(UserServiceClient::new(plain).get_user(get(FINE)).await.is_err());
}

#[tokio::test]
async fn a_key_that_everybody_may_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key, _) = certificate(dir.path(), 0o644);
    let mut config = config();
    config.tls.cert_file = Some(cert);
    config.tls.key_file = Some(key);
    let error = Port::bind(&config).await.unwrap_err().to_string();
    assert!(error.contains("tls.key_file") && error.contains("chmod"), "{error}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_its_flag() {
    let node = serve(|_| {}).await;
    let mut config = config();
    config.listen = node.address;
    let error = Port::bind(&config).await.unwrap_err().to_string();
    assert!(error.contains(&node.address.port().to_string()) && error.contains("--listen"), "{error}");
    assert!(!error.contains('\n'));
}
