//! Call spans go to the configured collector and continue the caller's trace.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "it/edge/mod.rs"]
mod edge;
#[path = "it/node/mod.rs"]
mod node;
#[path = "it/signing.rs"]
mod signing;

use std::{
    collections::HashMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    thread,
};

use bytes::Bytes;
use edge::{
    raw::{self, GET_USER, framed},
    serve,
    service::{FAILS, get},
    until,
};
use http_body_util::BodyExt as _;
use kith_proto::{
    admin::v1::GetNodeRequest,
    user::v1::{user_service_client::UserServiceClient, *},
};
use kith_server::{
    auth::Callers,
    build_info,
    config::{Backend, Config, Secret, TelemetryConfig},
    telemetry,
};
use node::{TestNode, variable};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use parking_lot::Mutex;
use prost::Message as _;
use tonic::{
    Code, Request, Status,
    body::Body,
    server::NamedService,
    transport::{Server, server::TcpIncoming},
};

/// The trace that a user names.
const OF_USER: &str = "5cf92f3577b34da6a3ce929d0e0e4737";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const USER_SERVICE: &str = "kith.user.v1.UserService";
/// An id that no user has.
const NOT_THERE: i64 = 4_242_424_242;

/// Accepts everything that is sent to it.
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
            Ok(Status::ok("").into_http())
        })
    }
}

impl Collector {
    fn contains(&self, part: &[u8]) -> bool {
        self.0.lock().iter().any(|bytes| bytes.windows(part.len()).any(|window| window == part))
    }

    fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        let decode = |bytes: &Bytes| ExportTraceServiceRequest::decode(&bytes[5..]).unwrap();
        self.0.lock().iter().map(decode).collect()
    }

    /// Returns the attributes that describe the process.
    fn resource(&self) -> HashMap<String, Value> {
        let requests = self.requests();
        attributes(&requests[0].resource_spans[0].resource.as_ref().unwrap().attributes)
    }

    /// Returns the spans in this trace.
    fn trace(&self, id: &str) -> Vec<Span> {
        let id = u128::from_str_radix(id, 16).unwrap().to_be_bytes();
        let resources = self.requests().into_iter().flat_map(|request| request.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).filter(|span| span.trace_id == id).collect()
    }

    /// Returns the spans in this trace, once its call has ended and its steps have arrived.
    async fn ended(&self, id: &str, steps: &[&str]) -> Vec<Span> {
        let has = |spans: &[Span], name: &str| spans.iter().any(|span| span.name == name);
        node::until(async || {
            let spans = self.trace(id);
            spans.iter().any(is_call) && steps.iter().all(|step| has(&spans, step))
        })
        .await;
        self.trace(id)
    }
}

/// Receives this process's spans in a collector that outlives each test.
fn collector() -> &'static Collector {
    static COLLECTOR: OnceLock<Collector> = OnceLock::new();
    COLLECTOR.get_or_init(|| {
        let collector = Collector::default();
        let of_thread = collector.clone();
        let (started, start) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
                let _telemetry = send_spans_to(incoming.local_addr().unwrap());
                started.send(()).unwrap();
                Server::builder().add_service(of_thread).serve_with_incoming(incoming).await.unwrap();
            });
        });
        start.recv().unwrap();
        collector
    })
}

fn send_spans_to(address: SocketAddr) -> telemetry::Telemetry {
    let config = TelemetryConfig {
        log_filter: "off".to_owned(),
        otlp_endpoint: Some(format!("http://{address}")),
        ..TelemetryConfig::default()
    };
    telemetry::start(&config).unwrap()
}

fn attributes(list: &[KeyValue]) -> HashMap<String, Value> {
    let pair = |one: &KeyValue| Some((one.key.clone(), one.value.clone()?.value?));
    list.iter().filter_map(pair).collect()
}

fn text(value: &str) -> Value {
    Value::StringValue(value.to_owned())
}

fn is_call(span: &Span) -> bool {
    span.kind == i32::from(SpanKind::Server)
}

/// Checks a call's name, kind, status and attributes.
fn assert_call(span: &Span, method: &str, code: Code, status: StatusCode) {
    assert_eq!(span.name, format!("{USER_SERVICE}/{method}"));
    let expected = [
        ("rpc.system", text("grpc")),
        ("rpc.service", text(USER_SERVICE)),
        ("rpc.method", text(method)),
        ("rpc.grpc.status_code", Value::IntValue(i32::from(code).into())),
    ];
    let expected: HashMap<_, _> =
        expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    assert_eq!(attributes(&span.attributes), expected, "{}", span.name);
    let found = span.status.as_ref().map_or(StatusCode::Unset, |status| status.code());
    assert_eq!(found, status, "{}", span.name);
}

/// Returns the only span with this name.
fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    let [span] = found.as_slice() else { panic!("{name}: {spans:#?}") };
    span
}

/// Checks that each named span is a child of its predecessor.
fn assert_nested(spans: &[Span], names: &[&str]) {
    for pair in names.windows(2) {
        let [outer, inner] = [pair[0], pair[1]].map(|name| named(spans, name));
        assert_eq!(inner.parent_span_id, outer.span_id, "{pair:?}");
    }
}

/// Makes a request in this trace.
fn traced<T>(trace: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_span_of_its_callers_trace() {
    let collector = collector();
    let node = serve(|_| {}).await;
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let headers = [("traceparent", parent.as_str()), ("kith-acting-user", "4242424242")];
    raw::call(node.address, GET_USER, &headers, framed(&[0x08, 0x01])).await.unwrap();
    call_by_user(&node).await;

    let spans = collector.ended(TRACE, &[]).await;
    assert_call(&spans[0], "GetUser", Code::Ok, StatusCode::Unset);
    assert_eq!(spans[0].parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    until("the call of the user", || collector.contains(b"SearchUsers")).await;
    assert!(!collector.contains(b"4242424242"), "nothing of people");
    assert!(collector.trace(OF_USER).is_empty(), "users do not choose their traces");
}

/// A user continues a trace, first with a token that is verified, then with a known token.
async fn call_by_user(node: &edge::ServedEdge) {
    let signer = signing::Signer::new(1);
    let edge = node.edge.clone().with_credentials(Arc::new(Callers::new(Vec::new())), signer.tokens());
    let token = signer.token(7);
    for _ in 0..2 {
        let mut request = traced(OF_USER, SearchUsersRequest::default());
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        let answer = UserServiceClient::new(edge.clone()).search_users(request).await;
        assert!(answer.is_ok() || answer.unwrap_err().code() == Code::Unimplemented);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_call_is_an_error_by_its_code() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let collector = collector();
    let node = serve(|_| {}).await;
    node.users().await.get_user(traced(TRACE, get(FAILS))).await.unwrap_err();
    let spans = collector.ended(TRACE, &[]).await;
    assert_call(&spans[0], "GetUser", Code::Internal, StatusCode::Error);
}

/// The ids of this process's nodes, in the order in which they started.
static NODE_IDS: tokio::sync::Mutex<Vec<String>> = tokio::sync::Mutex::const_new(Vec::new());

/// Starts a node, after other tests have started their nodes.
async fn start(change: impl FnOnce(&mut Config)) -> TestNode {
    let mut ids = NODE_IDS.lock().await;
    let node = TestNode::start_with(change).await;
    let id = async || node.admin().get_node(GetNodeRequest {}).await.map(|info| info.into_inner().node_id);
    node::until(async || id().await.is_ok()).await;
    ids.push(id().await.unwrap());
    node
}

/// Checks that no span has personal data: the calls' ids and names are absent.
fn assert_anonymous(spans: &[Span], words: &[&str]) {
    let all = format!("{spans:?}");
    assert!(words.iter().all(|word| !all.contains(word)), "{all}");
}

fn create(user_name: &str) -> CreateUserRequest {
    let user = User { user_name: user_name.to_owned(), ..User::default() };
    CreateUserRequest { user: Some(user), ..CreateUserRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn loads_and_writes_are_parts_of_their_call() {
    const WRITE: &str = "1af7651916cd43dd8448eb211c80319c";
    const MISS: &str = "2af7651916cd43dd8448eb211c80319c";
    const BATCH: &str = "3af7651916cd43dd8448eb211c80319c";
    let collector = collector();
    let node = start(|_| {}).await;
    let mut users = node.users();
    let made = users.create_user(traced(WRITE, create("zoe_traced"))).await.unwrap().into_inner();
    users.get_user(traced(MISS, get(NOT_THERE))).await.unwrap_err();
    let batch = BatchGetUsersRequest { user_ids: vec![NOT_THERE + 1, NOT_THERE + 2], ..Default::default() };
    users.batch_get_users(traced(BATCH, batch)).await.unwrap();

    let create_user = format!("{USER_SERVICE}/CreateUser");
    let spans = collector.ended(WRITE, &["store write user"]).await;
    assert_call(named(&spans, &create_user), "CreateUser", Code::Ok, StatusCode::Unset);
    assert_nested(&spans, &[&create_user, "store write user"]);
    assert_eq!(named(&spans, "store write user").kind, i32::from(SpanKind::Client));
    assert_anonymous(&spans, &["zoe_traced", &made.user.unwrap().user_id.to_string()]);

    let get_user = format!("{USER_SERVICE}/GetUser");
    let spans = collector.ended(MISS, &["load user", "store read user"]).await;
    assert_call(named(&spans, &get_user), "GetUser", Code::NotFound, StatusCode::Unset);
    assert_nested(&spans, &[&get_user, "load user", "store read user"]);
    assert_anonymous(&spans, &["4242424242"]);

    let spans = collector.ended(BATCH, &["load user", "store read user"]).await;
    for step in ["load user", "store read user"] {
        let read = attributes(&named(&spans, step).attributes);
        assert_eq!(read, HashMap::from([("kith.records".to_owned(), Value::IntValue(2))]), "{step}");
    }

    let resource = collector.resource();
    assert_eq!(resource["service.name"], text("kith"));
    assert_eq!(resource["service.version"], text(build_info::FULL));
    assert_eq!(
        resource["service.instance.id"],
        text(&NODE_IDS.lock().await[0]),
        "the first node of the process"
    );
    node.stop().await;
}

/// Configures MongoDB and Redis, with its own names.
fn of_a_cluster(config: &mut Config) {
    let name = format!("kith_traces_{}", std::process::id());
    config.store.backend = Backend::Cluster;
    config.store.mongodb.database.clone_from(&name);
    config.store.mongodb.uri = variable("KITH_TEST_MONGODB").map(Secret::new);
    config.redis.url = variable("KITH_TEST_REDIS").map(Secret::new);
    config.redis.prefix = name;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn load_asks_redis_and_then_the_store() {
    const WRITE: &str = "4af7651916cd43dd8448eb211c80319c";
    const MISS: &str = "5af7651916cd43dd8448eb211c80319c";
    let collector = collector();
    let node = start(of_a_cluster).await;
    let follows = async || {
        let info = node.admin().get_node(GetNodeRequest {}).await.unwrap().into_inner();
        info.redis == "follows" && info.trusted
    };
    node::until(follows).await;
    let mut users = node.users();
    users.create_user(traced(WRITE, create("zoe"))).await.unwrap();
    users.get_user(traced(MISS, get(NOT_THERE))).await.unwrap_err();

    let create_user = format!("{USER_SERVICE}/CreateUser");
    let spans = collector.ended(WRITE, &["store write user", "publish user"]).await;
    assert_nested(&spans, &[&create_user, "store write user"]);
    assert_nested(&spans, &[&create_user, "publish user"]);
    let spans = collector.ended(MISS, &["load user", "redis read user", "store read user"]).await;
    assert_nested(&spans, &[&format!("{USER_SERVICE}/GetUser"), "load user", "redis read user"]);
    assert_nested(&spans, &["load user", "store read user"]);
    node.stop().await;
}
