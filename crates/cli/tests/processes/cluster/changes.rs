//! Other systems follow the changes of a cluster while the nodes that keep them stop and die.

use std::time::Duration;

use kith_proto::{
    change::v1::{
        Change, ChangeKind, GetCursorRequest, ReadChangesRequest, change_service_client::ChangeServiceClient,
    },
    message::v1::{SendMessageRequest, send_message_request::To},
};

use crate::{
    cluster::{
        redis_proxy::following,
        site::{Peer, Site},
    },
    polls::until,
    spawned::{FREE, Started},
};

/// Another node leads this soon, and has read on.
const LIMIT: Duration = Duration::from_secs(30);

/// A reader of changes, with what it has read.
struct Follower {
    cursor: String,
    users: Vec<i64>,
    /// The last message's number, without a gap.
    last_seq: i64,
}

impl Follower {
    async fn begin(node: &Peer) -> Self {
        let mut cursor = String::new();
        until(LIMIT, async || {
            let answer = ChangeServiceClient::new(node.channel()).get_cursor(GetCursorRequest {}).await;
            let is_kept = answer.is_ok();
            cursor = answer.map(|answer| answer.into_inner().cursor).unwrap_or_default();
            is_kept
        })
        .await;
        Self { cursor, users: Vec::new(), last_seq: 0 }
    }

    async fn read(&mut self, node: &Peer) {
        let request = ReadChangesRequest { cursor: self.cursor.clone(), ..ReadChangesRequest::default() };
        let page = ChangeServiceClient::new(node.channel()).read_changes(request).await.unwrap();
        let page = page.into_inner();
        self.cursor = page.cursor;
        page.changes.iter().for_each(|change| self.note(change));
    }

    fn note(&mut self, change: &Change) {
        if change.kind() == ChangeKind::User && !self.users.contains(&change.user_id) {
            self.users.push(change.user_id);
        }
        if change.kind() == ChangeKind::Messages {
            assert!(change.first_seq <= self.last_seq + 1, "after {}: {change:?}", self.last_seq);
            self.last_seq = self.last_seq.max(change.last_seq);
        }
    }

    async fn read_until(&mut self, node: &Peer, users: &[i64], last_seq: i64) {
        until(LIMIT, async || {
            self.read(node).await;
            self.users.len() >= users.len() && self.last_seq >= last_seq
        })
        .await;
        assert_eq!((&self.users[..], self.last_seq), (users, last_seq));
    }
}

/// Creates a user, and sends a note from the first user to itself.
async fn change(node: &Peer, users: &mut Vec<i64>, last_seq: &mut i64) {
    users.push(node.create(&format!("user-{}", users.len())).await.user_id);
    let request = SendMessageRequest {
        to: Some(To::UserId(users[0])),
        sender_id: users[0],
        client_message_id: format!("m-{last_seq}"),
        body: "sesame".into(),
        ..Default::default()
    };
    *last_seq = node.messages().send_message(request).await.unwrap().into_inner().seq;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn dead_keeper_misses_no_change() {
    let (dir, site) = (tempfile::tempdir().unwrap(), Site::in_redis_of_tests());
    // The first node leads all feeds.
    let mut command = site.command(dir.path(), &FREE);
    command.env("KITH_CHANGES__KEPT", "1h");
    let killed = Started::of(command);
    drop(following(&killed).await);
    let keeping = |config: &mut kith_server::config::Config| config.changes.kept = LIMIT * 120;
    let other = site.node_with(keeping).await;
    other.until_following().await;
    let mut follower = Follower::begin(&other).await;
    let (mut users, mut last_seq) = (Vec::new(), 0);
    for _ in 0..20 {
        change(&other, &mut users, &mut last_seq).await;
    }
    follower.read_until(&other, &users, last_seq).await;
    change(&other, &mut users, &mut last_seq).await;
    drop(killed);
    for _ in 0..20 {
        change(&other, &mut users, &mut last_seq).await;
    }
    follower.read_until(&other, &users, last_seq).await;
    // A node that stops hands the feeds over; the cursor goes on at another node.
    let last = site.node_with(keeping).await;
    last.until_following().await;
    change(&other, &mut users, &mut last_seq).await;
    other.stop().await;
    change(&last, &mut users, &mut last_seq).await;
    follower.read_until(&last, &users, last_seq).await;
    last.stop().await;
}
