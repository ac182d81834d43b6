//! Spans of calls, sent where the configuration says, continuing the trace of the caller.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "it/edge/mod.rs"]
mod edge;
#[path = "it/signing.rs"]
mod signing;

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use edge::{
    raw::{self, GET_USER, framed},
    serve, until,
};
use http_body_util::BodyExt as _;
use kith_proto::user::v1::{SearchUsersRequest, user_service_client::UserServiceClient};
use kith_server::{auth::Callers, config::TelemetryConfig, telemetry};
use parking_lot::Mutex;
use tonic::{
    body::Body,
    server::NamedService,
    transport::{Server, server::TcpIncoming},
};

/// The trace that a user names.
const OF_USER: &str = "5cf92f3577b34da6a3ce929d0e0e4737";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Takes all that is sent to it.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Bytes>>>);

impl NamedService for Collector {
    const NAME: &'static str = "opentelemetry.proto.collector.trace.v1.TraceService";
}

impl tower::Service<http::Request<Body>> for Collector {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let taken = Arc::clone(&self.0);
        Box::pin(async move {
            let sent = request.into_body().collect().await.unwrap().to_bytes();
            taken.lock().push(sent);
            Ok(tonic::Status::ok("").into_http())
        })
    }
}

fn contains(all: &[Bytes], part: &[u8]) -> bool {
    all.iter().any(|bytes| bytes.windows(part.len()).any(|window| window == part))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_span_of_its_callers_trace() {
    let collector = Collector::default();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    tokio::spawn(Server::builder().add_service(collector.clone()).serve_with_incoming(incoming));

    let config = TelemetryConfig {
        log_filter: "off".to_owned(),
        otlp_endpoint: Some(format!("http://{address}")),
        ..TelemetryConfig::default()
    };
    let telemetry = telemetry::start(&config).unwrap();
    let node = serve(|_| {}).await;
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let headers = [("traceparent", parent.as_str()), ("kith-acting-user", "4242424242")];
    raw::call(node.address, GET_USER, &headers, framed(&[0x08, 0x01])).await.unwrap();
    call_by_user(&node).await;
    tokio::task::spawn_blocking(move || drop(telemetry)).await.unwrap();

    until("the span arrives", || !collector.0.lock().is_empty()).await;
    let taken = collector.0.lock().clone();
    let trace = u128::from_str_radix(TRACE, 16).unwrap().to_be_bytes();
    assert!(contains(&taken, &trace), "the trace of the caller");
    assert!(contains(&taken, b"kith.user.v1.UserService") && contains(&taken, b"GetUser"));
    assert!(!contains(&taken, b"4242424242"), "nothing of people");
    assert!(contains(&taken, b"SearchUsers"), "the call of the user");
    let of_user = u128::from_str_radix(OF_USER, 16).unwrap().to_be_bytes();
    assert!(!contains(&taken, &of_user), "users do not choose their traces");
}

/// A user names a trace, once with a token that is verified and once with one that is known.
async fn call_by_user(node: &edge::ServedEdge) {
    let signer = signing::Signer::new(1);
    let edge = node.edge.clone().with_credentials(Arc::new(Callers::new(Vec::new())), signer.tokens());
    let token = signer.token(7);
    for _ in 0..2 {
        let mut request = tonic::Request::new(SearchUsersRequest::default());
        let headers = request.metadata_mut();
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        headers.insert("traceparent", format!("00-{OF_USER}-00f067aa0ba902b7-01").parse().unwrap());
        let answer = UserServiceClient::new(edge.clone()).search_users(request).await;
        assert!(answer.is_ok() || answer.unwrap_err().code() == tonic::Code::Unimplemented);
    }
}
