//! Pages from other origins that may call.

use std::convert::Infallible;

use axum::body::Body;
use http::{HeaderName, HeaderValue, Method, Request, Response, header};
use hyper::body::Incoming;
use tower::{Layer as _, Service, ServiceExt as _};
use tower_http::cors::CorsLayer;

use crate::config::CorsConfig;

/// The headers that a page may send: for JSON, for gRPC-Web, and those that Kith itself reads.
const SENT: [HeaderName; 12] = [
    header::CONTENT_TYPE,
    header::AUTHORIZATION,
    HeaderName::from_static("connect-protocol-version"),
    HeaderName::from_static("connect-timeout-ms"),
    HeaderName::from_static("grpc-timeout"),
    HeaderName::from_static("kith-acting-user"),
    HeaderName::from_static("kith-sandbox"),
    HeaderName::from_static("kith-session"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("x-grpc-web"),
    HeaderName::from_static("x-user-agent"),
];
/// The headers that a page may read.
const READ: [HeaderName; 12] = [
    header::RETRY_AFTER,
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
    HeaderName::from_static("kith-contract"),
    HeaderName::from_static("kith-session"),
    HeaderName::from_static("kith-tier"),
    HeaderName::from_static("kith-version"),
    HeaderName::from_static("kith-age-ms"),
    HeaderName::from_static("trailer-kith-tier"),
    HeaderName::from_static("trailer-kith-version"),
    HeaderName::from_static("trailer-kith-age-ms"),
];

/// The permitted origins, and the answer to them.
#[derive(Debug)]
pub(super) struct Cors {
    origins: Vec<HeaderValue>,
    layer: CorsLayer,
}

impl Cors {
    /// `None` if no origin may call.
    pub(super) fn new(config: &CorsConfig) -> Option<Self> {
        let origins: Vec<HeaderValue> =
            config.origins.iter().filter_map(|origin| origin.parse().ok()).collect();
        if origins.is_empty() {
            return None;
        }
        let layer = CorsLayer::new()
            .allow_origin(origins.clone())
            .allow_methods([Method::POST])
            .allow_headers(SENT)
            .expose_headers(READ)
            .max_age(config.max_age);
        Some(Self { origins, layer })
    }

    /// Answers browsers' preflight requests; `calls` answers the rest. Other origins get no information about
    /// permitted requests.
    pub(super) async fn answer<S>(&self, request: Request<Incoming>, calls: S) -> Response<Body>
    where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    {
        let headers = request.headers();
        let listed = headers.get(header::ORIGIN).is_some_and(|origin| self.origins.contains(origin));
        let asks = headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        let answer = if listed && (asks || request.method() != Method::OPTIONS) {
            self.layer.layer(calls).oneshot(request).await
        } else {
            calls.oneshot(request).await.map(varies)
        };
        answer.unwrap_or_else(|never| match never {})
    }
}

/// The answer depends on the origin.
fn varies(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
    response
}
