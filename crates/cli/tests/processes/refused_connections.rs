//! Connections that limits refuse leave a trace for operators.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
    time::Duration,
};

use crate::{
    polls::block_until,
    spawned::{FREE, Started},
};

const BOUND: Duration = Duration::from_secs(30);

fn connect(node: &Started, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(node.grpc()).unwrap()).collect()
}

/// Waits until the peer has closed it.
fn is_closed(mut socket: TcpStream) -> bool {
    socket.set_read_timeout(Some(BOUND)).unwrap();
    matches!(socket.read(&mut [0; 1]), Ok(0) | Err(_))
}

/// Makes a call, so that the peer is no stranger.
fn call(mut socket: &TcpStream) {
    let call = "POST /kith.user.v1.UserService/GetUser HTTP/1.1\r\nhost: kith\r\ncontent-type: application/json\r\n\
                content-length: 12\r\n\r\n{\"userId\":7}";
    socket.write_all(call.as_bytes()).unwrap();
    socket.read_exact(&mut [0; 12]).unwrap();
}

fn lines(node: &Started, words: &str) -> usize {
    node.logged().lines().filter(|line| line.contains(words)).count()
}

fn until_logged(node: &Started, words: &str) {
    block_until(BOUND, || lines(node, words) > 0, || node.logged());
}

#[test]
fn connections_over_the_limit_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let node = Started::new(dir.path(), &["--set", "limits.connections=2", "--set", "limits.handshake=60s"]);
    let held = connect(&node, 2);
    held.iter().for_each(call);
    node.until_ready(|_, body| body["connections"] == 2);
    assert!(connect(&node, 20).into_iter().all(is_closed));
    let body = node.until_ready(|_, body| body["reasons"][0]["reason"] == "connections_refused");
    assert_eq!(body["ready"], true);
    let message = body["reasons"][0]["message"].as_str().unwrap();
    assert!(message.contains("limits.connections allows (2)"), "{message}");
    until_logged(&node, "limits.connections allows (2)");
    assert_eq!(lines(&node, "limits.connections allows (2)"), 1, "{}", node.logged());
    assert_eq!(node.figure("kith_connections_refused_total"), 20);
    drop(held);
}

#[test]
fn strangers_that_give_way_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let node = Started::new(dir.path(), &["--set", "limits.connections=2", "--set", "limits.handshake=60s"]);
    let held = connect(&node, 22);
    let body = node.until_ready(|_, body| body["reasons"][0]["reason"] == "connections_displaced");
    let message = body["reasons"][0]["message"].as_str().unwrap();
    assert!(message.contains("limits.connections (2)"), "{message}");
    let displaced = || node.figure("kith_places_displaced_total{kind=\"connections\"}");
    block_until(BOUND, || displaced() == 20, || node.logged());
    assert!(held.into_iter().take(20).all(is_closed));
    assert_eq!(lines(&node, "limits.connections (2)"), 1, "{}", node.logged());
}

#[test]
fn half_requests_of_operators_give_way() {
    let dir = tempfile::tempdir().unwrap();
    let node = Started::new(dir.path(), &[]);
    let held: Vec<_> = (0..300).map(|_| TcpStream::connect(node.operations()).unwrap()).collect();
    for mut half in &held {
        // The connection may have been closed already.
        half.write_all(b"GET /metrics HTTP/1.1\r\nhost:").ok();
    }
    node.until_ready(|code, body| code == 200 && body["reasons"][0]["reason"] == "operations_displaced");
    assert!(node.figure("kith_places_displaced_total{kind=\"operations\"}") >= 150);
    assert!(held.into_iter().all(is_closed), "also those that kept their places");
}

#[test]
fn lack_of_file_descriptors_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_kith")]).args(FREE);
    command.args(["--set", "limits.handshake=60s"]).current_dir(dir.path());
    let node = Started::of(command);
    let held = connect(&node, 80);
    until_logged(&node, "connections cannot be accepted");
    drop(held);
    let body = node.until_ready(|_, body| body["reasons"][0]["reason"] == "accept_failed");
    assert!(body["reasons"][0]["message"].as_str().unwrap().contains("ulimit -n"), "{body}");
    // The port for operators may lack one, too. Each port writes a line a minute.
    assert!(lines(&node, "connections cannot be accepted") <= 2, "{}", node.logged());
}
