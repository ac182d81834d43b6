//! Requests other than gRPC: JSON, gRPC-Web, browsers' preflights, and sockets.

use std::convert::Infallible;

use axum::body::Body;
use http::{HeaderValue, Method, Request, Response, header};
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
    /// CORS. `None`: no page from another origin may call.
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

    /// Answers one request. Calls are answered by the connection's edge.
    pub(super) async fn answer(&self, edge: &Edge, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        if let Some(sockets) = self.sockets.as_ref().filter(|_| path == ws::PATH) {
            return sockets.open(request, &edge.peer());
        }
        if self.demo && demo::PAGE.has(path) {
            return demo::PAGE.answer(&request);
        }
        let Some(cors) = &self.cors else { return self.call(edge, request).await };
        let calls = service_fn(|request| async { Ok::<_, Infallible>(self.call(edge, request).await) });
        cors.answer(request, calls).await
    }

    async fn call(&self, edge: &Edge, mut request: Request<Incoming>) -> Response<Body> {
        let Some(kind) = grpc_web(&request) else {
            return json::answer(edge, self.limits, request).await;
        };
        // The layer knows no parameters.
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        let calls = GrpcWebLayer::new().layer(edge.clone());
        calls.oneshot(request).await.unwrap_or_else(|never| match never {}).map(Body::new)
    }
}

/// The content type of a gRPC-Web request, without parameters such as `charset`. `None`: it is another
/// request.
fn grpc_web<B>(request: &Request<B>) -> Option<&'static str> {
    let kind = request.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
    let kind = kind.split_once(';').map_or(kind, |(kind, _)| kind).trim();
    let known = GRPC_WEB.into_iter().find(|web| web.eq_ignore_ascii_case(kind));
    known.filter(|_| request.method() == Method::POST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_web_is_known_with_parameters() {
        let kind = |method: Method, kind: &str| {
            let request = Request::builder().method(method).header(header::CONTENT_TYPE, kind).body(());
            grpc_web(&request.unwrap())
        };
        let binary = Some("application/grpc-web+proto");
        for text in ["application/grpc-web+proto", "Application/gRPC-Web+proto ; charset=utf-8"] {
            assert_eq!(kind(Method::POST, text), binary, "{text}");
        }
        assert_eq!(kind(Method::POST, "application/grpc-web-text;x=y"), Some("application/grpc-web-text"));
        assert_eq!(kind(Method::POST, "application/grpc-web+json"), None);
        assert_eq!(kind(Method::GET, "application/grpc-web"), None);
    }
}
