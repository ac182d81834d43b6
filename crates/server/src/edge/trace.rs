//! A span for every call, if spans are enabled.

use http::HeaderMap;
use kith_cache::spans::{self, TRACE_TARGET};
use opentelemetry::{global, propagation::Extractor};
use tonic::Code;
use tracing::{Span, field::Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The span for a call to this method. It continues the caller's trace (W3C `traceparent`). Disabled, it
/// costs a comparison. Names follow OpenTelemetry's semantic conventions for gRPC. Nothing in it identifies a
/// person.
pub(super) fn span(service: &str, method: &str, headers: &HeaderMap) -> Span {
    let span = tracing::debug_span!(
        target: TRACE_TARGET,
        "rpc",
        otel.name = %format_args!("{service}/{method}"),
        otel.kind = "server",
        otel.status_code = Empty,
        rpc.system = "grpc",
        rpc.service = service,
        rpc.method = method,
        rpc.grpc.status_code = Empty,
    );
    if !span.is_disabled() {
        let parent = global::get_text_map_propagator(|propagator| propagator.extract(&Headers(headers)));
        // This fails where no layer exports spans; the span is then for the log alone.
        drop(span.set_parent(parent));
    }
    span
}

/// Records the answer's code. By the conventions a call fails for its server with these codes, but not with
/// the codes for a caller that asked for the wrong thing.
pub(super) fn end(span: &Span, code: Code) {
    span.record("rpc.grpc.status_code", i32::from(code));
    if matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    ) {
        spans::fail(span);
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}
