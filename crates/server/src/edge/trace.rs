//! A span for every call, if spans are enabled.

use http::HeaderMap;
use opentelemetry::{global, propagation::Extractor};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::methods::Method;
use crate::telemetry::TRACE_TARGET;

/// A span that continues the caller's trace (W3C `traceparent`). Disabled, it costs a comparison.
pub(super) fn span(method: &Method, headers: &HeaderMap) -> Span {
    let span = tracing::debug_span!(
        target: TRACE_TARGET,
        "rpc",
        otel.kind = "server",
        rpc.system = "grpc",
        rpc.service = method.service,
        rpc.method = method.name,
    );
    if !span.is_disabled() {
        let parent = global::get_text_map_propagator(|propagator| propagator.extract(&Headers(headers)));
        // It fails where no layer exports spans; the span is then for the log alone.
        drop(span.set_parent(parent));
    }
    span
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
