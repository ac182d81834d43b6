//! User access over several nodes: strict, and streams end on every node.

use std::time::Duration;

use kith_proto::{
    message::v1::ReceiveRequest,
    user::v1::{DeleteUserRequest, GetUserRequest, ResumeUserRequest, SuspendUserRequest},
};
use tonic::{Code, Status};

use crate::{
    cluster::{
        hand,
        site::{Peer, Site, stop, with_relations},
        windows::acting,
    },
    polls::until,
};

/// How long a change made outside the nodes may take.
const BY_HAND: Duration = Duration::from_secs(11);
/// How long a stream may take to end: a second, and more on a busy machine.
const ENDS: Duration = Duration::from_secs(5);

/// Returns whether this node lets the user in.
async fn is_let_in(node: &Peer, user: i64) -> bool {
    let request = acting(user, GetUserRequest { user_id: user, consistency: None });
    match node.users().get_user(request).await {
        Ok(_) => true,
        Err(status) if status.code() == Code::PermissionDenied => false,
        Err(status) => panic!("{status:?}"),
    }
}

async fn suspend(node: &Peer, user_id: i64) {
    let request = SuspendUserRequest { user_id, ..Default::default() };
    node.users().suspend_user(request).await.unwrap();
}

async fn resume(node: &Peer, user_id: i64) {
    let request = ResumeUserRequest { user_id, ..Default::default() };
    node.users().resume_user(request).await.unwrap();
}

/// Returns the status with which the user's stream on this node ends, once `work` is done.
async fn end_of_stream(node: &Peer, user: i64, work: impl Future<Output = ()>) -> Status {
    let request = acting(user, ReceiveRequest { now: true, ..Default::default() });
    let mut stream = node.messages().receive(request).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    work.await;
    let ended = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ends with an error"),
                Err(status) => return status,
            }
        }
    };
    tokio::time::timeout(ENDS, ended).await.expect("it ends in time")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn suspension_is_strict_on_every_node() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    let ann = a.create("ann").await.user_id;
    for round in 0..10 {
        let (writer, reader) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        assert!(is_let_in(reader, ann).await, "round {round}");
        suspend(writer, ann).await;
        assert!(!is_let_in(reader, ann).await && !is_let_in(writer, ann).await, "round {round}");
        resume(reader, ann).await;
        assert!(is_let_in(writer, ann).await, "round {round}");
    }
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask test"]
async fn streams_end_on_the_other_node() {
    let [a, b]: [Peer; 2] = Site::in_redis_of_tests().nodes(with_relations).await;
    let ann = a.create("ann").await.user_id;
    let suspended = end_of_stream(&b, ann, suspend(&a, ann)).await;
    assert_eq!(suspended.code(), Code::PermissionDenied, "{suspended:?}");
    resume(&b, ann).await;
    let deletion = async {
        let request = DeleteUserRequest { user_id: ann, ..Default::default() };
        a.users().delete_user(request).await.unwrap();
    };
    let deleted = end_of_stream(&b, ann, deletion).await;
    assert_eq!(deleted.code(), Code::NotFound, "{deleted:?}");
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn suspension_by_hand_is_seen_everywhere() {
    let site = Site::in_redis_of_tests();
    let (a, b) = site.pair().await;
    let ann = a.create("ann").await.user_id;
    assert!(is_let_in(&a, ann).await && is_let_in(&b, ann).await);
    hand::set(&site.database, "users", ann, "suspended.reason", "by hand");
    for peer in [&a, &b] {
        until(BY_HAND, async || !is_let_in(peer, ann).await).await;
    }
    resume(&a, ann).await;
    assert!(is_let_in(&b, ann).await);
    stop([a, b]).await;
}
