//! Streams end early, also while they send.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use crate::edge::{ServedEdge, assert_refused, serve, service::BUSY, until};
use kith_proto::user::v1::{ExportUsersRequest, ImportUsersRequest, user_service_client::UserServiceClient};
use kith_server::{
    auth::{CallerKey, Callers, Digest, Rights},
    edge::{Edge, EdgeBody, EdgeFuture},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming, body::Body};

/// The most messages that may still arrive after a stream's end was signalled.
const ON_THEIR_WAY: usize = 100_000;

const KEY: &str = "kith_of_the_tests_0123456789abcdef";

/// An edge that is called with a key.
#[derive(Clone)]
struct KeyedEdge(Edge);

impl tower::Service<http::Request<Body>> for KeyedEdge {
    type Response = http::Response<EdgeBody>;
    type Error = Infallible;
    type Future = EdgeFuture<Body>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        request.headers_mut().insert("authorization", format!("Bearer {KEY}").parse().unwrap());
        tower::Service::call(&mut self.0, request)
    }
}

/// Returns a caller, and the token that ends its streams when its key is removed.
fn caller(node: &ServedEdge) -> (UserServiceClient<KeyedEdge>, CancellationToken) {
    let digest = Digest::of(KEY.as_bytes());
    let key = CallerKey { name: "jobs".to_owned(), rights: Rights::ALL, digest, made: None, expires: None };
    let callers = Arc::new(Callers::new(vec![key]));
    let ended = callers.find(KEY.as_bytes()).unwrap().ended.clone();
    (UserServiceClient::new(KeyedEdge(node.edge.clone().with_callers(callers))), ended)
}

/// Reads everything that was on its way, and returns the status with which the stream ends.
async fn end<T>(stream: &mut Streaming<T>) -> Status {
    for _ in 0..ON_THEIR_WAY {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended by itself"),
            Err(status) => return status,
        }
    }
    panic!("it goes on")
}

#[tokio::test]
async fn busy_export_ends_by_the_signal_of_its_caller() {
    let node = serve(|_| {}).await;
    let (mut users, token) = caller(&node);
    let mut export =
        users.export_users(ExportUsersRequest { after_user_id: BUSY }).await.unwrap().into_inner();
    for _ in 0..10 {
        assert!(export.message().await.unwrap().is_some());
    }
    token.cancel();
    assert_eq!(end(&mut export).await.code(), Code::Unauthenticated);
    until("its slot is free", || node.edge.in_flight() == 0).await;
}

#[tokio::test]
async fn idle_export_ends_by_the_signal_of_its_caller() {
    let node = serve(|_| {}).await;
    let (mut users, token) = caller(&node);
    let mut export = users.export_users(ExportUsersRequest::default()).await.unwrap().into_inner();
    assert!(export.message().await.unwrap().is_some());
    token.cancel();
    assert_eq!(end(&mut export).await.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn callers_end_signal_stops_an_import() {
    let node = serve(|_| {}).await;
    let (mut users, token) = caller(&node);
    let (send, messages) = mpsc::channel(1);
    let mut import = users.import_users(ReceiverStream::new(messages)).await.unwrap().into_inner();
    send.send(ImportUsersRequest::default()).await.unwrap();
    assert!(import.message().await.unwrap().is_some(), "what came before is acknowledged");
    token.cancel();
    assert_eq!(end(&mut import).await.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn busy_export_ends_at_its_deadline() {
    let node = serve(|config| config.limits.stream_max = Duration::from_millis(50)).await;
    let mut users = UserServiceClient::new(node.edge.clone());
    let mut export =
        users.export_users(ExportUsersRequest { after_user_id: BUSY }).await.unwrap().into_inner();
    let ended = loop {
        match export.message().await {
            Ok(message) => assert!(message.is_some(), "it has no end of its own"),
            Err(status) => break status,
        }
    };
    assert_refused(&ended, Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
}
