//! Nodes observe whether the others see each node's writes. They run in their own processes, since each has
//! its own figures.

#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::{
    cluster::{redis::Redis, site::Site},
    polls::block_until,
    spawned::{FREE, Started, signal},
};
use std::time::Duration;

use kith_proto::user::v1::{user_service_client::UserServiceClient, *};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tonic::transport::Channel;

/// Many times the period in which each node gets the canary's lease.
const PATIENCE: Duration = Duration::from_secs(90);
/// This is longer than a node trusts its memory and serves it after that.
const OUTAGE: Duration = Duration::from_secs(4);

/// A node, and its folder.
struct ObserverNode {
    node: Started,
    _folder: TempDir,
}

impl ObserverNode {
    /// Makes a node in this cluster that observes every write.
    fn new(site: &Site) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = site.command(folder.path(), &FREE);
        command.env("KITH_OBSERVER__SAMPLE_EVERY", "1");
        Self { node: Started::of(command), _folder: folder }
    }

    fn lags(&self) -> u64 {
        self.node.figure("kith_observer_lag_seconds_count")
    }

    fn checked(&self, after: &str) -> u64 {
        self.node.figure(&format!("kith_observer_checked_total{{after=\"{after}\"}}"))
    }

    /// Waits until it has timed another canary.
    fn until_it_times_another(&self) {
        let before = self.lags();
        block_until(PATIENCE, || self.lags() > before, || self.node.logged());
    }

    fn assert_nothing_is_stale(&self) {
        for after in ["1s", "3s", "10s", "60s"] {
            let stale = self.node.figure(&format!("kith_observer_stale_total{{after=\"{after}\"}}"));
            assert_eq!(stale, 0, "after {after}: {}", self.node.logged());
        }
        assert!(!self.node.logged().contains("older than it may be"), "{}", self.node.logged());
    }

    async fn users(&self) -> UserServiceClient<Channel> {
        UserServiceClient::new(self.node.channel().await)
    }
}

/// Waits until each node times another canary, ends the writes, and checks that nothing was stale.
fn assert_both_are_right(nodes: [ObserverNode; 2], writing: &JoinHandle<()>) {
    nodes.iter().for_each(ObserverNode::until_it_times_another);
    writing.abort();
    nodes.iter().for_each(ObserverNode::assert_nothing_is_stale);
    nodes.into_iter().for_each(|looking| looking.node.stop());
}

/// Starts two nodes in this cluster and waits until each has timed a canary.
fn pair(site: &Site) -> (ObserverNode, ObserverNode) {
    let (one, other) = (ObserverNode::new(site), ObserverNode::new(site));
    one.until_it_times_another();
    other.until_it_times_another();
    (one, other)
}

async fn create(users: &mut UserServiceClient<Channel>, name: &str) -> i64 {
    let user = User { user_name: name.to_owned(), ..User::default() };
    let request = CreateUserRequest { user: Some(user), ..CreateUserRequest::default() };
    users.create_user(request).await.unwrap().into_inner().user.unwrap().user_id
}

/// Writes the user again and again, and reads it on the other node, so that there is a copy that may get old.
/// Ends with its task.
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
    let (one, other) = pair(&Site::in_redis_of_tests());
    let (mut at_one, mut at_other) = (one.users().await, other.users().await);
    for name in ["ann", "bob"] {
        let user_id = create(&mut at_one, name).await;
        at_other.get_user(GetUserRequest { user_id, consistency: None }).await.unwrap();
    }
    create(&mut at_other, "cid").await;
    let checked = || (one.checked("1s"), other.checked("1s"));
    block_until(PATIENCE, || checked() == (2, 1), || format!("looked for {:?} writes", checked()));
    for node in [&one, &other] {
        assert!(node.lags() > 0 && node.checked("3s") > 0);
        node.assert_nothing_is_stale();
    }
    one.node.stop();
    other.node.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn paused_node_is_not_taken_for_stale() {
    let (one, other) = pair(&Site::in_redis_of_tests());
    let (mut at_one, at_other) = (one.users().await, other.users().await);
    let user_id = create(&mut at_one, "ann").await;
    let writing = tokio::spawn(write(at_one, at_other, user_id));
    signal(other.node.id(), "-STOP");
    tokio::time::sleep(OUTAGE).await;
    signal(other.node.id(), "-CONT");
    assert_both_are_right([one, other], &writing);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn nothing_is_stale_because_redis_stands_still() {
    let redis = Redis::start(&[]).await;
    let (one, other) = pair(&Site::new(Some(redis.url())));
    let (mut at_one, at_other) = (one.users().await, other.users().await);
    let user_id = create(&mut at_one, "ann").await;
    let writing = tokio::spawn(write(at_one, at_other, user_id));
    block_until(PATIENCE, || one.checked("1s") > 0, || "no write is looked for");
    redis.signal("-STOP");
    tokio::time::sleep(OUTAGE).await;
    redis.signal("-CONT");
    assert_both_are_right([one, other], &writing);
}
