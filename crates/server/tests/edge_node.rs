//! A whole node over SQLite in this process: the cost of a start and of bad input, its reports to operators,
//! and the order in which it stops.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::large_futures, reason = "a node is large")]

#[path = "it/edge/mod.rs"]
mod edge;

use std::{net::SocketAddr, time::Duration};

use edge::{
    config,
    raw::{self, GET_USER, IMPORT_USERS, framed},
    until,
};
use kith_proto::user::v1::{CreateUserRequest, User, user_service_client::UserServiceClient};
use kith_server::{Node, health::State};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::Code;

async fn start() -> (Node, tempfile::TempDir) {
    let data = tempfile::tempdir().unwrap();
    let mut config = config();
    config.data_dir = data.path().join("data");
    config.drain_wait = Duration::from_millis(200);
    (Node::start(config).await.unwrap(), data)
}

/// Returns the operations port's status line and body.
async fn operations(node: SocketAddr, path: &str) -> (u16, String) {
    operations_of(node, "localhost", path).await
}

/// Like [`operations`], but names the machine by another host.
async fn operations_of(node: SocketAddr, host: &str, path: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(node).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn embedded_node_serves_once_started() {
    let (node, _data) = start().await;
    assert_eq!(node.state(), State::Serving);
    assert!(node.stop(std::future::ready(())).await);
}

#[tokio::test]
async fn operators_see_metrics_and_reasons() {
    let (node, _data) = start().await;
    let port = node.addresses().operations.unwrap();
    let answer = raw::call(node.addresses().grpc, GET_USER, &[], framed(&[0x08, 0x01])).await.unwrap();
    assert_eq!(answer.status().code(), Code::NotFound);
    raw::call(node.addresses().grpc, "/made.up.by.Somebody/Else", &[], framed(&[])).await.unwrap();

    assert_eq!(operations(port, "/livez").await.0, 200);
    let (code, ready) = operations(port, "/readyz").await;
    assert_eq!(code, 200);
    assert!(ready.contains(r#""state":"serving""#) && ready.contains(r#""reasons":[]"#), "{ready}");
    let (_, metrics) = operations(port, "/metrics").await;
    for expected in [
        r#"kith_rpc_requests_total{service="kith.user.v1.UserService",method="GetUser",code="NOT_FOUND"} "#,
        r#"kith_rpc_requests_total{service="unknown",method="unknown",code="UNIMPLEMENTED"} "#,
        r#"kith_rpc_seconds_bucket{service="kith.user.v1.UserService",method="GetUser",le="0.001"} "#,
        "kith_rpc_in_flight 0",
        "kith_rpc_shed_total ",
        "kith_connections ",
        "kith_serving 1",
        "kith_mutations_in_flight 0",
        r#"kith_cache_requests_total{namespace="user","#,
        r#"kith_cache_load_seconds_count{namespace="user"} 1"#,
    ] {
        assert!(metrics.contains(expected), "{expected} in\n{metrics}");
    }
    assert!(!metrics.contains("made.up"), "labels come from the contract alone");
    node.stop(std::future::ready(())).await;
}

#[tokio::test]
async fn a89_rebound_page_reads_no_operations_port() {
    let (node, _data) = start().await;
    let port = node.addresses().operations.unwrap();
    for path in ["/metrics", "/readyz", "/livez", "/openapi.json", "/console", "/", "/nothing"] {
        for host in ["rebound.example", &format!("rebound.example:{}", port.port()), "10.0.0.7"] {
            let (code, body) = operations_of(port, host, path).await;
            assert_eq!(code, 403, "{host} {path}");
            assert!(!body.contains("kith_") && !body.contains("state"), "{body}");
        }
        let (code, _) = operations_of(port, &port.to_string(), path).await;
        assert_ne!(code, 403, "{path}");
    }
    node.stop(std::future::ready(())).await;
}

#[tokio::test]
async fn stop_is_announced_and_serves_until_then() {
    let (node, _data) = start().await;
    let (grpc, port) = (node.addresses().grpc, node.addresses().operations.unwrap());
    let mut users = UserServiceClient::connect(format!("http://{grpc}")).await.unwrap();
    let stopping = tokio::spawn(node.stop(std::future::pending()));
    let mut answer = (0, String::new());
    for _ in 0..100 {
        answer = operations(port, "/readyz").await;
        if answer.0 == 503 {
            break;
        }
    }
    assert!(answer.0 == 503 && answer.1.contains("stops"), "{answer:?}");
    let user = User { user_name: "ann".to_owned(), ..User::default() };
    let created = users.create_user(CreateUserRequest { user: Some(user), ..Default::default() }).await;
    assert!(created.is_ok(), "while load balancers have not noticed: {created:?}");
    assert!(stopping.await.unwrap(), "everything ended in time");
    until("the port is free", || std::net::TcpStream::connect(grpc).is_err()).await;
}

#[tokio::test]
async fn hundred_thousand_empty_messages_cost_little() {
    let (node, _data) = start().await;
    let before = resident();
    let many = framed(&[0x0a, 0x00].repeat(100_000));
    let answer = raw::call(node.addresses().grpc, IMPORT_USERS, &[], many).await.unwrap();
    assert_eq!(answer.status().code(), Code::InvalidArgument, "{answer:?}");
    let grown = peak().saturating_sub(before);
    assert!(grown <= 64 << 10, "{grown} KiB");
    node.stop(std::future::ready(())).await;
}

/// Returns this process's memory now, and its peak so far, in KiB.
fn resident() -> u64 {
    status("VmRSS:")
}

fn peak() -> u64 {
    status("VmHWM:")
}

fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
