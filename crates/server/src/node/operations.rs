//! The port for operators: `/metrics`, `/livez`, `/readyz`, `/openapi.json`, `/console`. It reports the
//! node's state; stored data only in answers to the [console](crate::console)'s calls. On the loopback
//! device it only answers requests that name this machine as their host: otherwise a page whose name resolves
//! to this machine could read it.

use std::{
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State as Shared},
    http::{StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use kith_service::metric;
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use tokio::{
    net::{TcpListener, TcpStream},
    task::spawn_blocking,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

use crate::{
    build_info,
    console::Console,
    edge::Edge,
    health::{HealthCause, Reporter, State},
    json::BodyLimits,
    node::services::Services,
    openapi,
    places::{PlaceKind, Places, RemotePeer},
    telemetry,
    transport::{AcceptLoop, Connections, Http1State, PortName, names_this_machine, plain_http1},
};

/// Time limit for running requests when the port closes.
const CLOSE: Duration = Duration::from_secs(1);
/// Most connections at the same time: for a Prometheus or two, and for load balancers' checks.
const CONNECTIONS: usize = 128;
/// How long a request's head may take, and how long a connection may be idle between two requests.
const HEAD: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(75);
/// This port in the log and in `/readyz`.
const PORT: PortName = PortName {
    refused: "operations_refused",
    displaced: "operations_displaced",
    limit: "the operations port",
};
/// How long a task may wait to be scheduled before the node counts as stuck.
const SCHEDULED: Duration = Duration::from_secs(2);
/// Most characters that are repeated from an unknown path.
const PATH_SHOWN: usize = 100;
/// The answer to `/`.
const ROUTES: &str = "\
/livez         200 while the node turns
/readyz        200 while it serves, else 503; JSON with each reason, also what is wrong while it serves
/metrics       counters, gauges and histograms, for Prometheus
/openapi.json  calls as JSON over HTTP, as OpenAPI 3.1
/console       a page about nodes, records and callers; it asks for a key
";

/// Where the reports come from.
#[derive(Clone, Debug)]
pub(super) struct OperationsState {
    /// The node's state.
    pub health: Reporter,
    /// Calls in flight, and the calls of the console.
    pub edge: Edge,
    /// The limits for bodies of these calls.
    pub limits: BodyLimits,
    /// Connections on the gRPC port.
    pub connections: Connections,
    /// Renders all metrics.
    pub metrics: PrometheusHandle,
    /// The domains, once they are served.
    pub services: Arc<OnceLock<Services>>,
}

/// Serves the port until `closing`.
pub(super) async fn serve(listener: TcpListener, operations: OperationsState, closing: CancellationToken) {
    let health = operations.health.clone();
    let is_private = listener.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let calls = (operations.edge.clone(), operations.limits);
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(alive))
        .route("/readyz", get(ready))
        .route("/openapi.json", get(openapi))
        .route("/", get(|| async { ROUTES }))
        .fallback(unknown)
        .with_state(Arc::new(operations));
    let router = if is_private { router.layer(middleware::from_fn(only_this_machine)) } else { router };
    let (places, tasks) = (Places::new(PlaceKind::Operations, CONNECTIONS), TaskTracker::new());
    let accepting = AcceptLoop::new(listener, places, tasks.clone(), closing.clone(), PORT, health);
    let serve = |socket: TcpStream, peer: Arc<RemotePeer>| {
        let console = Console::of_connection(&calls.0, calls.1, peer, is_of_this_machine(&socket));
        serve_connection(socket, console, router.clone(), closing.clone())
    };
    accepting.run(serve).await;
    tasks.close();
    if timeout(CLOSE, tasks.wait()).await.is_err() {
        tracing::debug!("requests of the operations port did not end in time");
    }
}

/// Serves a connection's requests. When the port closes, it only completes the request that has begun.
async fn serve_connection(socket: TcpStream, console: Console, router: Router, closing: CancellationToken) {
    let state = Arc::<Http1State>::default();
    let io = TokioIo::new(plain_http1(socket, Arc::clone(&state), HEAD));
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (console, router, open) = (console.clone(), router.clone(), state.begin());
        async move {
            let answer = match Console::takes(&request) {
                true => Ok(console.answer(request).await),
                false => router.oneshot(request.map(Body::new)).await,
            };
            drop(open);
            answer
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE);
    let mut connection = pin!(http.serve_connection(io, service));
    tokio::select! {
        _ended = connection.as_mut() => return,
        () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    drop(connection.await);
}

/// Whether the connection comes from this machine, maybe through a tunnel that ends here.
fn is_of_this_machine(socket: &TcpStream) -> bool {
    socket.peer_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback())
}

/// Answers only requests that name this machine as their host.
async fn only_this_machine(request: Request, next: Next) -> Response {
    if names_this_machine(&request) {
        return next.run(request).await;
    }
    let text = "this port answers requests for localhost or a loopback address alone; operations.listen with \
                another address serves others\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

/// Whether a new task is scheduled in time.
async fn alive() -> (StatusCode, &'static str) {
    match timeout(SCHEDULED, tokio::spawn(async {})).await {
        Ok(_) => (StatusCode::OK, "alive\n"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "tasks of the node do not get their turn\n"),
    }
}

async fn unknown(uri: Uri) -> (StatusCode, String) {
    let path: String = uri.path().chars().take(PATH_SHOWN).filter(|c| !c.is_control()).collect();
    (StatusCode::NOT_FOUND, format!("there is nothing at {path}; there is:\n{ROUTES}"))
}

/// Readiness with its reasons.
#[derive(Serialize)]
struct Readiness {
    ready: bool,
    state: &'static str,
    /// The version, with its commit and the commit's date.
    version: &'static str,
    /// The reasons for which it does not serve, or its problems while it serves.
    reasons: Vec<HealthCause>,
    connections: usize,
    calls_in_flight: usize,
}

async fn ready(Shared(operations): Shared<Arc<OperationsState>>) -> impl IntoResponse {
    let state = operations.health.state();
    let ready = state == State::Serving;
    let body = Readiness {
        ready,
        state: state.name(),
        version: build_info::LONG,
        reasons: [operations.health.causes(), operations.health.remarks()].concat(),
        connections: operations.connections.open(),
        calls_in_flight: operations.edge.in_flight(),
    };
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, Json(body))
}

/// Gauges are set when they are read: counting on every call would cost every call.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
async fn metrics(Shared(operations): Shared<Arc<OperationsState>>) -> impl IntoResponse {
    metrics::gauge!(metric::RPC_IN_FLIGHT.name).set(operations.edge.in_flight() as f64);
    metrics::gauge!(metric::CONNECTIONS.name).set(operations.connections.open() as f64);
    metrics::gauge!(metric::ANSWERS_UNREAD_BYTES.name).set(operations.edge.unread_bytes() as f64);
    telemetry::process::export();
    metrics::counter!(metric::LOG_LINES_DROPPED.name).absolute(telemetry::dropped_lines());
    if let Some(services) = operations.services.get() {
        metrics::gauge!(metric::MUTATIONS_IN_FLIGHT.name).set(services.mutations.in_flight() as f64);
        services.export_metrics();
    }
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, operations.metrics.render())
}

/// Written at each request and not kept: few read it, and it takes memory.
async fn openapi() -> Response {
    match spawn_blocking(openapi::document).await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Ok(Err(_)) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
