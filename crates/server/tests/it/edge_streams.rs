//! The end of streams before their time, also while they send.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::edge::{Served, assert_refused, serve, service::BUSY, until};
use kith_proto::user::v1::{ExportUsersRequest, ImportUsersRequest, user_service_client::UserServiceClient};
use kith_server::edge::{CloseSignal, Edge};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status, Streaming, service::interceptor::InterceptedService};

/// Messages that may still come of a stream that was told to end: what was on its way.
const ON_THEIR_WAY: usize = 100_000;

fn ended() -> Status {
    Status::unauthenticated("the caller has ended")
}

type Signalled = UserServiceClient<InterceptedService<Edge, SignalAll>>;

/// Puts the signal of a caller into each call, as what admits calls does.
#[derive(Clone)]
struct SignalAll(CancellationToken);

impl tonic::service::Interceptor for SignalAll {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.extensions_mut().insert(CloseSignal::new(self.0.clone(), ended));
        Ok(request)
    }
}

fn caller(node: &Served) -> (Signalled, CancellationToken) {
    let token = CancellationToken::new();
    (UserServiceClient::with_interceptor(node.edge.clone(), SignalAll(token.clone())), token)
}

/// What a stream ends with, after what was on its way.
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
async fn import_ends_between_two_messages_by_the_signal_of_its_caller() {
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
