//! Another program has locked a node's data file: a SQLite shell, a tool that copies files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use kith_proto::{
    r#type::v1::{Consistency, consistency},
    user::v1::{CreateUserRequest, GetUserRequest, User, user_service_client::UserServiceClient},
};
use rusqlite::Connection;
use tokio::task::JoinSet;
use tonic::{Code, Request, Status, transport::Channel};
use tonic_types::StatusExt as _;

/// Longer than a node waits for a lock.
const DEADLINE: Duration = Duration::from_secs(9);
const WRITERS: i64 = 8;

/// A node; killed when dropped.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A node over an embedded store in this folder, and where it answers.
fn node(dir: &Path) -> (Node, String) {
    // The program that runs a node; the server's tests build it.
    let kith = Path::new(env!("CARGO_BIN_EXE_kith-lab")).with_file_name("kith");
    let mut command = Command::new(kith);
    command.env_clear().current_dir(dir).args(["serve", "--listen=127.0.0.1:0"]);
    command.args(["--set", "operations.listen=127.0.0.1:0"]).stdin(Stdio::null()).stderr(Stdio::null());
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let (mut banner, printed) = (String::new(), process.stdout.take().unwrap());
    let node = Node(process);
    BufReader::new(printed).read_line(&mut banner).unwrap();
    let banner: serde_json::Value = serde_json::from_str(&banner).unwrap();
    (node, banner["grpc"].as_str().unwrap().to_owned())
}

/// Takes the write lock, in this process, which does not run the node, until the connection is dropped.
fn lock(dir: &Path) -> Connection {
    let connection = Connection::open(dir.join("data/kith.db")).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

async fn started(dir: &Path) -> (Node, UserServiceClient<Channel>) {
    let (node, address) = node(dir);
    let mut users = UserServiceClient::connect(format!("http://{address}")).await.unwrap();
    create(&mut users, 1).await.unwrap();
    (node, users)
}

async fn create(users: &mut UserServiceClient<Channel>, user_id: i64) -> Result<(), Status> {
    let user = User { user_id, user_name: format!("user {user_id}"), ..Default::default() };
    let mut request = Request::new(CreateUserRequest { user: Some(user), ..Default::default() });
    request.set_timeout(DEADLINE);
    users.create_user(request).await.map(drop)
}

/// The outcome of a write by each writer.
async fn writes(users: &UserServiceClient<Channel>) -> Vec<Result<(), Status>> {
    let mut writes = JoinSet::new();
    for writer in 0..WRITERS {
        let mut users = users.clone();
        writes.spawn(async move { create(&mut users, 100 + writer).await });
    }
    writes.join_all().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the program of a node: run cargo xtask test"]
async fn only_writes_wait_for_a_foreign_lock() {
    let dir = tempfile::tempdir().unwrap();
    let (_node, users) = started(dir.path()).await;
    let locked = lock(dir.path());
    let writing = tokio::spawn({
        let users = users.clone();
        async move { writes(&users).await }
    });
    for _ in 0..20 {
        let level = Some(consistency::Level::Strong(true));
        let request = GetUserRequest { user_id: 1, consistency: Some(Consistency { level }) };
        users.clone().get_user(request).await.unwrap();
    }
    assert!(!writing.is_finished(), "the writes wait");
    drop(locked);
    let written = writing.await.unwrap();
    assert!(written.iter().all(Result::is_ok), "{written:?}");
}

/// Whether the health service reports that the node serves.
async fn serves(channel: &Channel) -> bool {
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
    health.check(tonic_health::pb::HealthCheckRequest::default()).await.unwrap().into_inner().status == 1
}

async fn until_serves(channel: &Channel, expected: bool) {
    let turned = async {
        while serves(channel).await != expected {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, turned).await.unwrap_or_else(|_| panic!("never {expected}"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the program of a node: run cargo xtask test"]
async fn node_does_not_serve_while_it_cannot_write() {
    let dir = tempfile::tempdir().unwrap();
    let (_node, address) = node(dir.path());
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    assert!(serves(&channel).await);
    let locked = lock(dir.path());
    until_serves(&channel, false).await;
    drop(locked);
    until_serves(&channel, true).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the program of a node: run cargo xtask test"]
async fn long_lock_is_a_store_outage_until_released() {
    let dir = tempfile::tempdir().unwrap();
    let (_node, mut users) = started(dir.path()).await;
    let locked = lock(dir.path());
    for refused in writes(&users).await {
        let status = refused.unwrap_err();
        let info = status.get_details_error_info().unwrap();
        assert_eq!((status.code(), info.reason.as_str()), (Code::Unavailable, "STORE_UNAVAILABLE"));
        assert_eq!(info.metadata["outcome"], "unknown", "it is answered in time, and runs on");
    }
    drop(locked);
    create(&mut users, 1000).await.unwrap();
}
