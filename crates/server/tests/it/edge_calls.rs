//! Deadlines, shedding, trailing metadata and the acting user, as callers see them.

use std::time::Duration;

use crate::edge::{
    assert_refused,
    raw::{self, GET_USER, framed},
    serve,
    service::{BUSY, FINE, HELD, PANICS, get},
    until,
};
use kith_proto::{
    presence::v1::{WatchPresenceRequest, presence_service_client::PresenceServiceClient},
    user::v1::ExportUsersRequest,
};
use tonic::{Code, Request};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_types::StatusExt as _;

fn with_timeout<T>(message: T, timeout: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout);
    request
}

#[tokio::test]
async fn slow_call_ends_at_its_deadline() {
    let node = serve(|_| {}).await;
    // tonic's client would end the call by itself.
    let held = framed(&[0x08, u8::try_from(HELD).unwrap()]);
    let answer = raw::call(node.address, GET_USER, &[("grpc-timeout", "50m")], held).await.unwrap();
    assert_refused(answer.status(), Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
    until("the slot is free again", || node.edge.in_flight() == 0).await;
    node.seen.release(1);
    node.assert_healthy().await;
    assert_eq!(node.seen.ended(), 0, "the handler was dropped");
}

#[tokio::test]
async fn a_call_without_a_deadline_has_the_default_one() {
    let node = serve(|config| config.limits.deadline_default = Duration::from_millis(30)).await;
    let status = node.users().await.get_user(get(HELD)).await.unwrap_err();
    assert_refused(&status, Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
}

#[tokio::test]
async fn silent_stream_ends_at_its_deadline() {
    let node = serve(|_| {}).await;
    let mut request = Request::new(ExportUsersRequest::default());
    request.metadata_mut().insert("grpc-timeout", "80m".parse().unwrap());
    let mut stream = node.users().await.export_users(request).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    let status = stream.message().await.unwrap_err();
    assert_refused(&status, Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
    until("the slot is free again", || node.edge.in_flight() == 0).await;
}

#[tokio::test]
async fn busy_export_ends_at_its_deadline() {
    let node = serve(|config| config.limits.stream_max = Duration::from_millis(50)).await;
    let request = ExportUsersRequest { after_user_id: BUSY };
    let mut export = node.users().await.export_users(request).await.unwrap().into_inner();
    let ended = loop {
        match export.message().await {
            Ok(message) => assert!(message.is_some(), "it has no end of its own"),
            Err(status) => break status,
        }
    };
    assert_refused(&ended, Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
}

#[tokio::test]
async fn stream_outlives_unary_deadlines() {
    let node = serve(|config| {
        config.limits.deadline_default = Duration::from_millis(1);
        config.limits.deadline_max = Duration::from_millis(1);
        config.limits.stream_max = Duration::from_millis(60);
    })
    .await;
    let started = std::time::Instant::now();
    let mut stream =
        node.users().await.export_users(ExportUsersRequest::default()).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    assert_eq!(stream.message().await.unwrap_err().code(), Code::DeadlineExceeded);
    assert!(started.elapsed() >= Duration::from_millis(60));
}

#[tokio::test]
async fn full_node_sheds_calls_and_answers_health() {
    let node = serve(|config| {
        config.limits.in_flight = 1;
        config.limits.queue_wait = Duration::from_millis(20);
    })
    .await;
    let held = node.held_call().await;

    let status = node.users().await.get_user(get(FINE)).await.unwrap_err();
    assert_refused(&status, Code::ResourceExhausted, "OVERLOADED");
    assert!(status.get_error_details().retry_info().is_some(), "when to come again");
    assert_eq!(node.health_says().await, ServingStatus::Serving);

    node.seen.release(1);
    assert!(held.await.unwrap().is_ok(), "the call that was taken on is answered");
    node.assert_healthy().await;
}

#[tokio::test]
async fn waiting_call_runs_when_another_ends() {
    let node = serve(|config| {
        config.limits.in_flight = 1;
        config.limits.queue_wait = Duration::from_secs(2);
    })
    .await;
    let held = node.held_call().await;
    let mut second = node.users().await;
    let waits = tokio::spawn(async move { second.get_user(get(FINE)).await });
    node.seen.release(1);
    assert!(held.await.unwrap().is_ok());
    assert!(waits.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_call_that_is_cancelled_leaves_its_slot() {
    let node = serve(|config| config.limits.in_flight = 1).await;
    let held = node.held_call().await;
    held.abort();
    until("its slot is free", || node.edge.in_flight() == 0).await;
    node.assert_healthy().await;
}

#[tokio::test]
async fn open_watches_take_no_slots() {
    let node = serve(|config| {
        config.limits.in_flight = 2;
        config.limits.queue_wait = Duration::ZERO;
    })
    .await;
    let mut presence = PresenceServiceClient::new(node.channel().await);
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(presence.watch_presence(WatchPresenceRequest::default()).await.unwrap().into_inner());
    }
    assert_eq!(node.edge.in_flight(), 0);
    node.assert_healthy().await;

    node.edge.close_watches();
    for mut watch in watches {
        assert_refused(&watch.message().await.unwrap_err(), Code::Unavailable, "STOPPING");
    }
    assert_eq!(node.edge.in_flight(), 0, "no slot is given back twice");
}

#[tokio::test]
async fn open_exports_keep_their_slots() {
    let node = serve(|config| {
        config.limits.in_flight = 2;
        config.limits.queue_wait = Duration::ZERO;
    })
    .await;
    let mut users = node.users().await;
    let first = users.export_users(ExportUsersRequest::default()).await.unwrap();
    let second = users.export_users(ExportUsersRequest::default()).await.unwrap();
    assert_eq!(node.edge.in_flight(), 2);
    let status = users.get_user(get(FINE)).await.unwrap_err();
    assert_refused(&status, Code::ResourceExhausted, "OVERLOADED");
    drop((first, second));
    until("their slots are free", || node.edge.in_flight() == 0).await;
    node.assert_healthy().await;
}

#[tokio::test]
async fn panic_fails_only_its_own_call() {
    let node = serve(|_| {}).await;
    let mut client = node.users().await;
    let mut other = client.clone();
    let held = tokio::spawn(async move { other.get_user(get(HELD)).await });
    until("the other call is with its handler", || node.seen.calls() == 1).await;
    let status = client.get_user(get(PANICS)).await.unwrap_err();
    assert_refused(&status, Code::Internal, "INTERNAL");
    node.seen.release(1);
    assert!(held.await.unwrap().is_ok(), "on the same connection");
}

#[tokio::test]
async fn client_deadline_is_kept_to_the_end() {
    let node = serve(|_| {}).await;
    let answer = node.users().await.get_user(with_timeout(get(FINE), Duration::from_secs(5))).await;
    assert!(answer.is_ok());
}
