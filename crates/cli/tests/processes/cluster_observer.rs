//! Nodes that look whether what one of them wrote is seen by the others: processes of their own, since each has
//! figures of its own.

#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::{
    port,
    spawned::{FREE, Started, http, kith},
};
use std::{
    net::{Ipv4Addr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use kith_proto::user::v1::{
    CreateUserRequest, GetUserRequest, UpdateUserRequest, User, user_service_client::UserServiceClient,
};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than a node trusts what it knows, and than it serves it after that.
const OUTAGE: Duration = Duration::from_secs(4);

fn variable(name: &str) -> Option<String> {
    std::env::vars().find(|(wanted, _)| wanted == name).map(|(_, value)| value)
}

fn needed(name: &str) -> String {
    variable(name).unwrap_or_else(|| panic!("{name} is not set: run cargo xtask test"))
}

fn until(mut is: impl FnMut() -> bool, why: impl Fn() -> String) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{}", why());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// A node, and its folder.
struct Looking {
    node: Started,
    _folder: TempDir,
}

impl Looking {
    /// Of the cluster of this name; looks often, and for every write.
    fn new(cluster: &str, redis: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { node: Started::of(serve(folder.path(), cluster, redis)), _folder: folder }
    }

    fn pid(&self) -> u32 {
        self.node.banner["pid"].to_string().parse().unwrap()
    }

    fn figure(&self, sample: &str) -> u64 {
        let (_, text) = http(&self.node.operations(), "GET", "/metrics");
        let found = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        found.map_or(0, |value| value.parse().unwrap())
    }

    fn lags(&self) -> u64 {
        self.figure("kith_observer_lag_seconds_count")
    }

    fn checked(&self, after: &str) -> u64 {
        self.figure(&format!("kith_observer_checked_total{{after=\"{after}\"}}"))
    }

    /// Waits until it has timed more canaries than by now.
    fn until_it_times_another(&self) {
        let before = self.lags();
        until(|| self.lags() > before, || format!("no canary is timed: {}", self.node.logged()));
    }

    fn assert_nothing_is_stale(&self) {
        for after in ["1s", "3s", "10s", "60s"] {
            let stale = self.figure(&format!("kith_observer_stale_total{{after=\"{after}\"}}"));
            assert_eq!(stale, 0, "after {after}: {}", self.node.logged());
        }
        assert!(!self.node.logged().contains("older than it may be"), "{}", self.node.logged());
    }

    async fn users(&self) -> UserServiceClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.node.grpc())).unwrap();
        UserServiceClient::new(endpoint.connect().await.unwrap())
    }

    fn end(self) {
        let (code, _, logged) = self.node.terminate();
        assert_eq!(code, Some(0), "{logged}");
    }
}

fn serve(folder: &Path, cluster: &str, redis: &str) -> Command {
    let mut command = kith(folder, &FREE);
    command.env("KITH_STORE__BACKEND", "cluster").env("KITH_STORE__MONGODB__DATABASE", cluster);
    command.env("KITH_STORE__MONGODB__URI", needed("KITH_TEST_MONGODB"));
    command.env("KITH_REDIS__URL", redis).env("KITH_REDIS__PREFIX", cluster);
    command.env("KITH_OBSERVER__CANARY_EVERY", "500ms").env("KITH_OBSERVER__SAMPLE_EVERY", "1");
    command
}

/// Two nodes of a cluster of their own, each of which has timed a canary.
fn pair(redis: &str) -> (Looking, Looking) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let cluster = format!("kith_looks_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let (one, other) = (Looking::new(&cluster, redis), Looking::new(&cluster, redis));
    one.until_it_times_another();
    other.until_it_times_another();
    (one, other)
}

async fn create(users: &mut UserServiceClient<Channel>, name: &str) -> i64 {
    let user = User { user_name: name.to_owned(), ..User::default() };
    let request = CreateUserRequest { user: Some(user), ..CreateUserRequest::default() };
    users.create_user(request).await.unwrap().into_inner().user.unwrap().user_id
}

/// Writes the user again and again, and reads it on the other node, so that there is a copy that may get old. Ends
/// with its task.
async fn write(mut writer: UserServiceClient<Channel>, mut reader: UserServiceClient<Channel>, user_id: i64) {
    for round in 0_u64.. {
        let user = User { user_id, nick_name: round.to_string(), ..User::default() };
        let update_mask = Some(prost_types::FieldMask { paths: vec!["nick_name".to_owned()] });
        let request = UpdateUserRequest { user: Some(user), update_mask, ..UpdateUserRequest::default() };
        // Either node may be away.
        drop(writer.update_user(request).await);
        let read = reader.get_user(GetUserRequest { user_id, consistency: None });
        drop(tokio::time::timeout(Duration::from_millis(50), read).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn two_nodes_observe_each_other_without_stale() {
    let (one, other) = pair(&needed("KITH_TEST_REDIS"));
    let (mut at_one, mut at_other) = (one.users().await, other.users().await);
    for name in ["ann", "bob"] {
        let user_id = create(&mut at_one, name).await;
        at_other.get_user(GetUserRequest { user_id, consistency: None }).await.unwrap();
    }
    create(&mut at_other, "cid").await;
    until(
        || one.checked("1s") == 2 && other.checked("1s") == 1,
        || format!("looked for {} and {} writes", one.checked("1s"), other.checked("1s")),
    );
    for node in [&one, &other] {
        assert!(node.lags() > 0 && node.checked("3s") > 0);
        node.assert_nothing_is_stale();
    }
    one.end();
    other.end();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn paused_node_is_not_taken_for_stale() {
    let (one, other) = pair(&needed("KITH_TEST_REDIS"));
    let (mut at_one, at_other) = (one.users().await, other.users().await);
    let user_id = create(&mut at_one, "ann").await;
    let writing = tokio::spawn(write(at_one, at_other, user_id));
    signal(other.pid(), "-STOP");
    tokio::time::sleep(OUTAGE).await;
    signal(other.pid(), "-CONT");
    one.until_it_times_another();
    other.until_it_times_another();
    writing.abort();
    one.assert_nothing_is_stale();
    other.assert_nothing_is_stale();
    one.end();
    other.end();
}

/// A Redis of the test's own; ends with it.
struct Redis(Child, u16);

impl Redis {
    fn start() -> Self {
        let port = port::free();
        let program = variable("KITH_TEST_REDIS_SERVER").unwrap_or_else(|| "redis-server".to_owned());
        let mut command = Command::new(program);
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        let redis = Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap(), port);
        until(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok(), || "no Redis".to_owned());
        redis
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn nothing_is_stale_because_redis_stands_still() {
    let redis = Redis::start();
    let (one, other) = pair(&format!("redis://127.0.0.1:{}", redis.1));
    let (mut at_one, at_other) = (one.users().await, other.users().await);
    let user_id = create(&mut at_one, "ann").await;
    let writing = tokio::spawn(write(at_one, at_other, user_id));
    until(|| one.checked("1s") > 0, || "no write is looked for".to_owned());
    signal(redis.0.id(), "-STOP");
    tokio::time::sleep(OUTAGE).await;
    signal(redis.0.id(), "-CONT");
    one.until_it_times_another();
    other.until_it_times_another();
    writing.abort();
    one.assert_nothing_is_stale();
    other.assert_nothing_is_stale();
    one.end();
    other.end();
}
