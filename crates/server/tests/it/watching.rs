//! A watched node: its messages, how many watchers it has, and the end.

use std::time::Duration;

use crate::node::{TestNode, assert_error, assert_exhausted, assert_invalid, until_within};
use kith_proto::{
    admin::v1::{MethodFigures, WatchNodeRequest, WatchNodeResponse},
    user::v1::GetUserRequest,
};
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};

const SHORT: Duration = Duration::from_millis(200);
/// The test fails after this time.
const PATIENCE: Duration = Duration::from_secs(20);

fn every(interval: Duration) -> WatchNodeRequest {
    WatchNodeRequest { interval: Some(prost_types::Duration::try_from(interval).unwrap()) }
}

async fn watch(node: &TestNode) -> Result<Streaming<WatchNodeResponse>, Status> {
    node.admin().watch_node(every(SHORT)).await.map(tonic::Response::into_inner)
}

async fn next(messages: &mut Streaming<WatchNodeResponse>) -> Result<WatchNodeResponse, Status> {
    timeout(PATIENCE, messages.message()).await.expect("a message comes").map(Option::unwrap)
}

async fn read(node: &TestNode, user_id: i64) -> Result<(), Code> {
    let answer = node.users().get_user(GetUserRequest { user_id, consistency: None }).await;
    answer.map(drop).map_err(|status| status.code())
}

/// Returns a method's figures in a message.
fn of(message: &WatchNodeResponse, method: &str) -> Option<MethodFigures> {
    message.methods.iter().find(|one| one.method == method).cloned()
}

fn user_hits(message: &WatchNodeResponse) -> i64 {
    message.namespaces.iter().find(|one| one.namespace == "user").unwrap().hits
}

#[tokio::test(flavor = "multi_thread")]
async fn watcher_gets_activity_since_the_last_message() {
    let node = TestNode::start().await;
    let id = node.user("ann").await.user_id;
    let mut messages = watch(&node).await.unwrap();
    for _ in 0..5 {
        assert_eq!(read(&node, id).await, Ok(()));
    }
    assert_eq!(read(&node, i64::MAX).await, Err(Code::NotFound));
    let (mut calls, mut errors, mut hits) = (0, 0, 0);
    while calls < 6 {
        let message = next(&mut messages).await.unwrap();
        assert!(of(&message, "CreateUser").is_none(), "it was called before: {message:?}");
        hits += user_hits(&message);
        let Some(get) = of(&message, "GetUser") else { continue };
        let figures = get.figures.unwrap();
        assert_eq!(
            (get.service.as_str(), Some(&figures)),
            ("kith.user.v1.UserService", message.calls.as_ref())
        );
        assert!(figures.p50.is_some() && figures.p99.unwrap().nanos > 0, "{figures:?}");
        calls += figures.calls;
        errors += figures.errors;
        assert_eq!(figures.faults, 0, "an id that is not there is no fault of the node");
    }
    assert_eq!((calls, errors, hits), (6, 1, 5));
    let quiet = next(&mut messages).await.unwrap();
    assert_eq!((quiet.methods.len(), quiet.calls.unwrap().p99, user_hits(&quiet)), (0, None, 0));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_has_state_and_time() {
    let node = TestNode::start().await;
    node.user("ann").await;
    let mut messages = watch(&node).await.unwrap();
    let message = next(&mut messages).await.unwrap();
    let interval = Duration::try_from(message.interval.unwrap()).unwrap();
    assert!(interval >= SHORT && interval < PATIENCE, "{interval:?}");
    let how = message.node.unwrap();
    assert_eq!((how.state.as_str(), how.trusted, how.store_answers), ("serving", true, true));
    assert_eq!((how.since_proof, how.entries_behind), (None, 0), "it is alone");
    assert_eq!(how.calls_in_flight, 0, "a watch is none");
    assert!(how.calls.unwrap().calls >= 1, "since the start: CreateUser");
    let users = message.namespaces.iter().find(|one| one.namespace == "user").unwrap();
    assert!(users.entries == 1 && users.weight_bytes > 0, "{users:?}");
    node.stop().await;
}

#[tokio::test]
async fn interval_is_bounded_and_defaults_to_1_s() {
    let node = TestNode::start().await;
    let refused = [Duration::from_millis(199), Duration::from_millis(60_001), Duration::ZERO].map(every);
    let backwards = prost_types::Duration { seconds: -1, nanos: 0 };
    for request in refused.into_iter().chain([WatchNodeRequest { interval: Some(backwards) }]) {
        let status = assert_invalid(node.admin().watch_node(request).await, "interval");
        assert_eq!(status.message(), "interval must be 200ms to 1m");
    }
    let messages = node.admin().watch_node(WatchNodeRequest::default()).await.unwrap();
    let message = next(&mut messages.into_inner()).await.unwrap();
    assert!(message.interval.unwrap().seconds >= 1, "{message:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_are_bounded_and_leaving_makes_room() {
    let node = TestNode::start_with(|config| config.limits.watchers = 1).await;
    let first = watch(&node).await.unwrap();
    assert_exhausted(watch(&node).await, "OVERLOADED");
    drop(first);
    until_within(PATIENCE, async || watch(&node).await.is_ok()).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_node_notifies_watchers_at_once() {
    let node = TestNode::start_with(|config| config.drain = PATIENCE).await;
    let mut messages = node.admin().watch_node(every(PATIENCE)).await.unwrap().into_inner();
    let begun = std::time::Instant::now();
    let stopped = tokio::spawn(node.stop());
    assert_error(next(&mut messages).await, Code::Unavailable, "STOPPING");
    drop(messages);
    timeout(PATIENCE, stopped).await.unwrap().unwrap();
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
}
