//! Every call passes here before a handler sees it: its deadline, its credential, the acting user, its
//! method's rule, the bound on calls in flight. Every answer passes here afterwards: codes that gRPC callers
//! expect, trailing metadata, metrics.
//!
//! This is a single service of our own instead of a stack of layers: a read from memory costs little, and
//! every box or allocation on this path would show in it.

mod access;
mod admission;
mod answer;
mod body;
mod bounded;
mod caller_calls;
mod codes;
mod connection;
mod deadline;
mod ending;
mod events;
mod future;
mod gate;
mod methods;
mod routes;
mod sandbox;
mod sessions;
mod times;
mod trace;
mod unpack;
mod unread;
mod user_quotas;

use std::{
    mem,
    sync::{Arc, OnceLock},
};

use http::{HeaderValue, Request};
use kith_cache::Node;
use kith_service::{message::ConnectionSigns, rpc::call::Call};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

pub(crate) use access::AccessGuard;
pub(crate) use answer::{invalid_metadata, too_much_unread};
pub use body::EdgeBody;
pub use bounded::{BoundedBody, RequestBody};
pub use codes::code_name;
pub(crate) use future::CONTRACT;
pub use future::EdgeFuture;
pub(crate) use methods::{MethodCounts, services};
pub use routes::{RouteService, Routes};
#[cfg(feature = "embedded")]
pub(crate) use sandbox::SandboxName;
pub(crate) use sessions::SESSION;
pub(crate) use times::LatencySnapshot;
pub(crate) use unread::{ConnectionUnread, UnreadFull};
pub(crate) use user_quotas::MeterSlot;

use self::{
    admission::{Admission, AdmittedCall, DeniedCall, UnverifiedCall},
    bounded::MessageBounds,
    caller_calls::CallerCalls,
    connection::{Connection, WatchLimits},
    deadline::Deadlines,
    ending::{CloseSignal, EndConditions, StreamEnd},
    events::EventCall,
    gate::{CallGate, SlotRequest},
    methods::{CallRecord, Method, MethodKind, Methods},
    sessions::CarriedSession,
    unpack::Packing,
    unread::NodeUnread,
    user_quotas::{MessageMeter, UserQuotas},
};
use crate::{
    auth::{
        Callers, Rule, Tokens,
        identity::{Authentication, Identity, InProcessIdentity},
        user::User,
    },
    config::LimitsConfig,
    places::RemotePeer,
    telemetry::audit::RefusalLog,
};

/// An extension on a request that the node makes for a socket. No peer can put it there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SocketRequest {
    /// Most record bytes that the answer may have. `None`: the general limit.
    pub(crate) answer_bytes: Option<usize>,
    /// See [`Call::delivers`].
    pub(crate) delivers: bool,
}

/// The names under which a socket's refused token is counted and logged.
const HELLO: (&str, &str) = ("ws", "hello");

/// The edge. Cheap to clone; every connection has its own clone.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Health and reflection: served from the first moment on.
    base: Routes,
    /// The domains: served once the store is there.
    domains: Arc<OnceLock<Routes>>,
    shared: Arc<EdgeShared>,
    auth: Arc<Authentication>,
    /// Whether calls may name a sandbox.
    sandboxes: bool,
    /// The connection that calls come from. `None`: they come from within the process.
    connection: Option<Arc<Connection>>,
}

/// How many calls an edge handles, and what it has counted. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Load(Arc<EdgeShared>);

impl Load {
    /// Calls that are being handled: not health, reflection, nor watches that are open.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.gate.in_flight()
    }

    /// The most that are handled at the same time.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.gate.limit()
    }

    /// Calls turned away since the start because too many were in flight.
    #[must_use]
    pub fn shed(&self) -> u64 {
        self.0.gate.shed()
    }

    /// The counts since the start for all methods in the contract that were called, by service and method.
    pub(crate) fn counted(&self) -> Vec<MethodCounts> {
        self.0.methods.counted()
    }
}

#[derive(Debug)]
struct EdgeShared {
    methods: Methods,
    gate: CallGate,
    users: UserQuotas,
    callers: CallerCalls,
    unary: Deadlines,
    streams: Deadlines,
    message_bytes: usize,
    batch_message_bytes: usize,
    watches: WatchLimits,
    unread: Arc<NodeUnread>,
    closing: CancellationToken,
    /// Whose changes sessions count, once it serves.
    sessions: OnceLock<Node>,
    refusals: RefusalLog,
}

impl Edge {
    /// Serves `base` alone until [`Self::open`], and every client as long as no [callers](Self::with_callers)
    /// are set. Metrics go to the recorder installed before.
    #[must_use]
    pub fn new(base: Routes, limits: &LimitsConfig) -> Self {
        let shared = EdgeShared {
            methods: Methods::new(),
            gate: CallGate::new(limits.in_flight, limits.queue_wait),
            users: UserQuotas::new(limits),
            callers: CallerCalls::new(),
            unary: Deadlines { default: limits.deadline_default, most: limits.deadline_max },
            streams: Deadlines { default: limits.stream_max, most: limits.stream_max },
            message_bytes: limits.message_bytes,
            batch_message_bytes: limits.batch_message_bytes,
            watches: WatchLimits::new(limits.health_watches, limits.health_watches_per_connection),
            unread: NodeUnread::new(limits.unread_bytes, limits.unread_bytes_per_connection),
            closing: CancellationToken::new(),
            sessions: OnceLock::new(),
            refusals: RefusalLog::new(),
        };
        let auth = Arc::new(Authentication::new(Arc::new(Callers::open()), Arc::new(Tokens::none())));
        let shared = Arc::new(shared);
        Self { base, domains: Arc::default(), shared, auth, sandboxes: false, connection: None }
    }

    /// Serves these callers alone.
    #[must_use]
    pub fn with_callers(self, callers: Arc<Callers>) -> Self {
        self.with_credentials(callers, Arc::new(Tokens::none()))
    }

    /// Serves these callers, and the users that these tokens name. If the callers are open, every client is
    /// served, and no token is read.
    #[must_use]
    pub fn with_credentials(mut self, callers: Arc<Callers>, tokens: Arc<Tokens>) -> Self {
        self.auth = Arc::new(Authentication::new(callers, tokens));
        self
    }

    /// Whether every client is served, since no caller is configured.
    pub(crate) fn is_open(&self) -> bool {
        self.auth.is_open()
    }

    /// Takes calls from other nodes. `verify` checks the proof (metadata `kith-node`) for a call, given as
    /// `SERVICE/METHOD`. A second call changes nothing.
    pub fn trust_nodes(&self, verify: impl Fn(&HeaderValue, &str) -> bool + Send + Sync + 'static) {
        self.auth.trust_nodes(verify);
    }

    /// The user that this token names, as calls with it find it.
    ///
    /// # Errors
    /// CREDENTIALS_REFUSED.
    pub(crate) async fn user(&self, token: &str) -> Result<Arc<User>, Status> {
        self.auth.user(token).await.map_err(|refused| {
            self.shared.refusals.add(&refused, HELLO, None);
            refused.error.into()
        })
    }

    /// Clones the edge for one more connection, whose unread answers are counted in the second value. `signs`
    /// says when its peer is heard, over HTTP/2.
    pub(crate) fn of_connection(
        &self,
        peer: Arc<RemotePeer>,
        signs: Option<Arc<ConnectionSigns>>,
    ) -> (Self, Arc<ConnectionUnread>) {
        let connection = self.shared.watches.connection(self.shared.unread.connection(), peer, signs);
        let unread = Arc::clone(&connection.unread);
        (Self { connection: Some(connection), ..self.clone() }, unread)
    }

    /// The peer at the connection's other end.
    pub(crate) fn peer(&self) -> Arc<RemotePeer> {
        self.connection.as_ref().map_or_else(RemotePeer::internal, |connection| Arc::clone(&connection.peer))
    }

    /// How many answer bytes are held because their peers have not read them.
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        self.shared.unread.bytes()
    }

    /// Whether a call may name a sandbox (metadata `kith-sandbox`). By default it may not. The name is then
    /// found in the request's extensions.
    #[must_use]
    pub fn with_sandboxes(mut self, allowed: bool) -> Self {
        self.sandboxes = allowed;
        self
    }

    /// Serves `domains` too. A second call changes nothing.
    pub fn open(&self, domains: Routes) {
        self.domains.get_or_init(|| domains);
    }

    /// Answers sessions by the changes of this node. A second call changes nothing.
    pub fn serve_sessions(&self, node: Node) {
        self.shared.sessions.get_or_init(|| node);
    }

    /// The session that demands what all of these do; `None` if one of them was not answered over this
    /// database.
    ///
    /// # Errors
    /// If the node is starting.
    pub(crate) fn joined_session(&self, texts: &[&str]) -> Result<Option<String>, Box<Status>> {
        let node = self.shared.sessions.get().ok_or_else(|| Box::new(answer::starting()))?;
        Ok(sessions::joined(node, texts.iter().copied()).ok())
    }

    /// Ends the streams that would otherwise never end (health watches, reflection).
    pub fn close_watches(&self) {
        self.shared.closing.cancel();
    }

    /// Logs how many calls were refused since it was called last. To be called every 10 s.
    pub fn report_refusals(&self) {
        self.shared.refusals.report();
        if let Some(domains) = self.domains.get() {
            domains.report_refusals();
        }
    }

    /// How many calls are being handled: not health, reflection, nor watches that are open.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.gate.in_flight()
    }

    /// The load, for services that the edge itself serves: it does not keep them alive.
    #[must_use]
    pub fn load(&self) -> Load {
        Load(Arc::clone(&self.shared))
    }

    /// Answers one call.
    pub(crate) fn handle<B: RequestBody>(&self, mut request: Request<B>) -> EdgeFuture<B> {
        let started = Instant::now();
        let method = self.shared.methods.of(request.uri().path());
        let record = CallRecord::begin(Arc::clone(method), started);
        match self.admit(&mut request, method, started) {
            Ok(Admission::Admitted(admitted)) => self.start_in_session(request, record, admitted),
            Ok(Admission::Unverified(waiting)) => {
                EdgeFuture::verifying(self.clone().verify(request, record, waiting))
            }
            Err(denied) => self.deny(&request, record, denied),
        }
    }

    /// Goes on with a call once its token is verified.
    async fn verify<B: RequestBody>(
        self,
        request: Request<B>,
        record: CallRecord,
        waiting: UnverifiedCall,
    ) -> EdgeFuture<B> {
        match waiting.verify().await {
            Ok(admitted) => self.start_in_session(request, record, admitted),
            Err(denied) => self.deny(&request, record, denied),
        }
    }

    /// Begins a call as soon as this node has what its session demands.
    fn start_in_session<B: RequestBody>(
        &self,
        request: Request<B>,
        record: CallRecord,
        mut admitted: AdmittedCall,
    ) -> EdgeFuture<B> {
        let Some(node) = self.shared.sessions.get().filter(|_| request.headers().contains_key(SESSION))
        else {
            return self.start(request, record, &admitted, None);
        };
        match CarriedSession::of(request.headers(), node) {
            Err(status) => EdgeFuture::refused(record, *status),
            Ok(Some(session)) if !session.is_reached() => {
                EdgeFuture::verifying(self.clone().start_after_session(request, record, admitted, session))
            }
            Ok(session) => {
                admitted.call.session = session.as_ref().map(CarriedSession::reached).unwrap_or_default();
                self.start(request, record, &admitted, session.map(Box::new))
            }
        }
    }

    async fn start_after_session<B: RequestBody>(
        self,
        request: Request<B>,
        record: CallRecord,
        mut admitted: AdmittedCall,
        session: CarriedSession,
    ) -> EdgeFuture<B> {
        admitted.call.session = session.reach().await;
        self.start(request, record, &admitted, Some(Box::new(session)))
    }

    /// Refuses a call, and counts it if its credential or its rights are the cause.
    fn deny<B>(&self, request: &Request<B>, mut record: CallRecord, denied: DeniedCall) -> EdgeFuture<B> {
        if let Some(refused) = denied.refused {
            let (method, trace_id) = (record.method(), events::trace_id(request.headers()));
            self.shared.refusals.add(&refused, (&method.service, &method.name), trace_id.as_deref());
            record.count_for(refused.caller.map(|caller| self.shared.callers.of_caller(&caller)));
        }
        EdgeFuture::refused(record, *denied.status)
    }

    /// Reads the call's metadata.
    fn admit<B>(
        &self,
        request: &mut Request<B>,
        method: &Method,
        started: Instant,
    ) -> Result<Admission, DeniedCall> {
        let deadlines = match method.kind {
            MethodKind::Unary => self.shared.unary,
            MethodKind::Stream | MethodKind::Watch => self.shared.streams,
        };
        let by = request.extensions_mut().remove::<InProcessIdentity>();
        let admission = admission::admit(&self.auth, request.headers_mut(), by, method, deadlines, started)?;
        if let Some(name) = sandbox::of(request.headers(), self.sandboxes)? {
            request.extensions_mut().insert(name);
        }
        Ok(admission)
    }

    fn start<B: RequestBody>(
        &self,
        mut request: Request<B>,
        mut record: CallRecord,
        admitted: &AdmittedCall,
        session: Option<Box<CarriedSession>>,
    ) -> EdgeFuture<B> {
        record.count_for(self.shared.callers.of(&admitted.by));
        record.begin_span(|method| trace::span(&method.service, &method.name, request.headers()));
        if !record.method().known {
            return EdgeFuture::refused(record, answer::method_unknown());
        }
        self.prove(record.method().rule, &admitted.by);
        let SocketRequest { answer_bytes, delivers } = request.extensions_mut().remove().unwrap_or_default();
        let call = Call { delivers, ..record.method().complete(admitted.call) };
        let answer_bytes = answer_bytes.unwrap_or(call.answer_bytes);
        request.extensions_mut().insert(Call { answer_bytes, ..call });
        self.show_signs(&mut request, record.method());
        let exempt = record.method().exempt;
        let routes = match self.domains.get() {
            Some(domains) if !exempt => domains,
            None if !exempt => {
                return EdgeFuture::refused(record, answer::starting());
            }
            Some(_) | None => &self.base,
        };
        if !exempt && let Err(error) = self.shared.users.count(admitted.call, record.method().rule) {
            return EdgeFuture::refused(record, error.into());
        }
        if let Some(event) = record.method().event {
            let by = admitted.by.clone();
            let event = EventCall::new(event, by, admitted.call.principal.user(), request.headers());
            request.extensions_mut().insert(event.notes());
            record.begin_event(event);
        }
        let bounds = self.bounds(&mut request, record.method(), admitted.call);
        let request = request.map(|body| BoundedBody::new(body, bounds));
        let end_conditions = self.end_conditions(record.method(), admitted);
        let mut running = future::RunningCall::new(record, end_conditions, session);
        if exempt {
            if running.kind() == MethodKind::Watch {
                let Some(watch) = self.shared.watches.acquire(self.connection.as_deref()) else {
                    return EdgeFuture::refused(running.into_record(), answer::too_many_watches());
                };
                running.hold_watch(watch);
            }
            return EdgeFuture::running(routes.answer(running.service(), request), running, None);
        }
        match self.shared.gate.request_slot() {
            SlotRequest::Granted(slot) => {
                EdgeFuture::running(routes.answer(running.service(), request), running, Some(slot))
            }
            SlotRequest::Queued(slot) => EdgeFuture::waiting(slot, routes.clone(), request, running),
            SlotRequest::Refused => EdgeFuture::refused(running.into_record(), answer::overloaded()),
        }
    }

    /// Lets a stream know when its connection's peer is heard.
    fn show_signs<B>(&self, request: &mut Request<B>, method: &Method) {
        let signs = self.connection.as_ref().and_then(|connection| connection.signs.as_ref());
        if let (MethodKind::Watch, Some(signs)) = (method.kind, signs) {
            request.extensions_mut().insert(Arc::clone(signs));
        }
    }

    /// The peer of a call is no stranger if the call has a credential, or needs none on an open node.
    fn prove(&self, rule: Rule, by: &Identity) {
        if let Some(connection) = &self.connection
            && !(rule.is_open() && matches!(by, Identity::Anonymous))
        {
            connection.peer.prove();
        }
    }

    /// The bounds for a request's messages.
    fn bounds<B>(&self, request: &mut Request<B>, method: &Method, call: Call) -> MessageBounds {
        let shared = &self.shared;
        let most = if method.batch { shared.batch_message_bytes } else { shared.message_bytes };
        let many = method.batch && method.kind != MethodKind::Unary;
        if method.exempt {
            return MessageBounds { most, many, packing: None, meter: MessageMeter::none() };
        }
        let (packing, mut meter) = (Packing::take(request.headers_mut()), shared.users.meter(call));
        if let Some(slot) = request.extensions_mut().remove::<MeterSlot>() {
            slot.fill(mem::replace(&mut meter, MessageMeter::none()));
        }
        MessageBounds { most, many, packing, meter }
    }

    /// The conditions that end a call before its answer is complete: its deadline; for every stream also when
    /// its caller ends, and for streams without an end when the node stops.
    fn end_conditions(&self, method: &Method, admitted: &AdmittedCall) -> EndConditions {
        let caller = if method.kind == MethodKind::Unary { None } else { admitted.close_signal() };
        let closing = &self.shared.closing;
        let node =
            (method.kind == MethodKind::Watch).then(|| CloseSignal::new(closing.clone(), answer::stopping));
        let deadline = StreamEnd { at: admitted.call.deadline, status: answer::deadline_exceeded };
        let last = if method.kind == MethodKind::Unary { deadline } else { admitted.latest_end() };
        EndConditions::new(last, [caller, node])
    }
}

impl<B: RequestBody> tower::Service<Request<B>> for Edge {
    type Response = http::Response<EdgeBody>;
    type Error = std::convert::Infallible;
    type Future = EdgeFuture<B>;

    fn poll_ready(&mut self, _cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.handle(request)
    }
}
