//! Requests other than gRPC: JSON, gRPC-Web, preflights of browsers, and sockets.

use std::convert::Infallible;

use axum::body::Body;
use http::{Method, Request, Response, header};
use hyper::body::Incoming;
use tonic_web::GrpcWebLayer;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::cors::Cors;
use crate::{
    config::{CorsConfig, LimitsConfig},
    demo,
    edge::Edge,
    json::{self, BodyLimits},
    ws::{self, Sockets},
};

/// The content types that [`tonic_web`] knows.
const GRPC_WEB: [&str; 4] = [
    "application/grpc-web",
    "application/grpc-web+proto",
    "application/grpc-web-text",
    "application/grpc-web-text+proto",
];

/// Answers requests other than gRPC.
#[derive(Debug)]
pub(super) struct Web {
    limits: BodyLimits,
    /// CORS; `None`: no page of another origin may call.
    cors: Option<Cors>,
    /// Sockets; `None`: disabled.
    sockets: Option<Sockets>,
    /// Whether it serves the demo page.
    demo: bool,
}

impl Web {
    pub(super) fn new(
        limits: &LimitsConfig,
        cors: &CorsConfig,
        sockets: Option<Sockets>,
        demo: bool,
    ) -> Self {
        Self { limits: BodyLimits::of(limits), cors: Cors::new(cors), sockets, demo }
    }

    /// Answers one request; calls are answered by the edge of its connection.
    pub(super) async fn answer(&self, edge: &Edge, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        if let Some(sockets) = self.sockets.as_ref().filter(|_| path == ws::PATH) {
            return sockets.open(request, &edge.peer());
        }
        if self.demo && demo::has(path) {
            return demo::answer(&request);
        }
        let Some(cors) = &self.cors else { return self.call(edge, request).await };
        let calls = service_fn(|request| async { Ok::<_, Infallible>(self.call(edge, request).await) });
        cors.answer(request, calls).await
    }

    async fn call(&self, edge: &Edge, request: Request<Incoming>) -> Response<Body> {
        if !is_grpc_web(&request) {
            return json::answer(edge, self.limits, request).await;
        }
        let calls = GrpcWebLayer::new().layer(edge.clone());
        calls.oneshot(request).await.unwrap_or_else(|never| match never {}).map(Body::new)
    }
}

fn is_grpc_web<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE);
    request.method() == Method::POST && kind.is_some_and(|kind| GRPC_WEB.iter().any(|web| kind == web))
}
