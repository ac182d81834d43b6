//! The contract's methods, and the counters for each.

use std::{
    collections::HashMap,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ahash::RandomState;
use kith_service::{
    error::Reason,
    metric,
    rpc::call::{Call, CallAccess},
};
use metrics::{Counter, Histogram};
use prost_reflect::{DescriptorPool, MethodDescriptor};
use tokio::time::Instant;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use tracing::{Span, span::Entered};

use super::{
    caller_calls::CallerCounters,
    codes::CODES,
    events::{Event, EventCall},
    times::{LatencyHistogram, LatencySnapshot},
    trace,
};
use crate::{auth::Rule, descriptors};

/// Codes with which a node does not bring a call to an end.
const FAULTS: [Code; 6] = [
    Code::Unknown,
    Code::DeadlineExceeded,
    Code::ResourceExhausted,
    Code::Internal,
    Code::Unavailable,
    Code::DataLoss,
];

/// Reasons for `RESOURCE_EXHAUSTED` that are not the caller's. All others are limits that it has reached
/// itself.
const EXHAUSTED_NODE: [&str; 2] = [Reason::Overloaded.name(), Reason::StoreFull.name()];

/// The services that are there from the first moment on, bound by no limit: `service`, `method`, kind, and
/// who may call, since their contracts are not Kith's.
const EXEMPT: [(&str, &str, MethodKind, Rule); 4] = [
    ("grpc.health.v1.Health", "Check", MethodKind::Unary, Rule::Open),
    ("grpc.health.v1.Health", "Watch", MethodKind::Watch, Rule::Open),
    ("grpc.reflection.v1.ServerReflection", "ServerReflectionInfo", MethodKind::Watch, Rule::AnyCaller),
    ("grpc.reflection.v1alpha.ServerReflection", "ServerReflectionInfo", MethodKind::Watch, Rule::AnyCaller),
];

/// How long a call may live, and whether a stop of the node ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MethodKind {
    /// One message each way: the deadline bounds the handler.
    Unary,
    /// Messages that end by themselves: a stop waits for them.
    Stream,
    /// Messages without an end, or with an end that may be far: a stop ends them.
    Watch,
}

/// A method as the contract declares it.
struct MethodDeclaration {
    service: String,
    name: String,
    kind: MethodKind,
    batch: bool,
    rule: Rule,
    event: Option<Event>,
}

/// All methods in the contract, service by service. The process reads the descriptors once for all edges and
/// does not keep them: they take more memory than this.
static CONTRACT: LazyLock<Vec<MethodDeclaration>> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(kith_proto::DESCRIPTOR_SET);
    let pool = pool.expect("the descriptors are built into the program");
    pool.services()
        .flat_map(|service| {
            service.methods().map(|method| MethodDeclaration::of(&method)).collect::<Vec<_>>()
        })
        .collect()
});

impl MethodDeclaration {
    fn of(method: &MethodDescriptor) -> Self {
        let rules = descriptors::rules(method);
        let service = method.parent_service().full_name().to_owned();
        let access = descriptors::access(method).unwrap_or_default();
        let rule = Rule::of(&service, method.name(), &access);
        let streams = method.is_client_streaming() || method.is_server_streaming();
        Self {
            event: Event::of(&service, method.name(), &access),
            rule: rule.expect("a contract in which a method has no rule is not built"),
            service,
            name: method.name().to_owned(),
            kind: match (streams, rules.watch) {
                (true, true) => MethodKind::Watch,
                (true, false) => MethodKind::Stream,
                (false, _) => MethodKind::Unary,
            },
            batch: rules.batch,
        }
    }
}

/// A method with its counters. These are looked up once, so that a call costs no lookup by name.
#[derive(Debug)]
pub(super) struct Method {
    pub(super) service: String,
    pub(super) name: String,
    pub(super) kind: MethodKind,
    pub(super) rule: Rule,
    /// The security event that its calls are, if any.
    pub(super) event: Option<Event>,
    /// Set for health and reflection.
    pub(super) exempt: bool,
    /// Whether it is in the contract, or exempt.
    pub(super) known: bool,
    /// Whether its message has many records; it may be larger then.
    pub(super) batch: bool,
    answers: [OnceLock<Counter>; CODES.len()],
    seconds: OnceLock<Histogram>,
    /// The times for watchers of the node: the metrics recorder cannot be read.
    times: OnceLock<Box<LatencyHistogram>>,
    errors: AtomicU64,
    faults: AtomicU64,
}

/// One method's call counts since the start.
#[derive(Clone, Debug)]
pub(crate) struct MethodCounts {
    /// `kith.user.v1.UserService`.
    pub(crate) service: String,
    /// The method's short name, such as `GetUser`.
    pub(crate) method: String,
    /// Whether neither side streams.
    pub(crate) unary: bool,
    /// Calls that ended with another code than OK.
    pub(crate) errors: u64,
    /// The calls that the node did not bring to an end.
    pub(crate) faults: u64,
    /// How long all calls took.
    pub(crate) times: LatencySnapshot,
}

impl Method {
    /// A method in the contract, with small messages.
    fn new(service: &str, name: &str, kind: MethodKind, rule: Rule) -> Self {
        Self {
            service: service.to_owned(),
            name: name.to_owned(),
            kind,
            rule,
            event: None,
            exempt: false,
            known: true,
            batch: false,
            answers: Default::default(),
            seconds: OnceLock::new(),
            times: OnceLock::new(),
            errors: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        }
    }

    /// Completes the call with what its method knows about it.
    pub(super) fn complete(&self, call: Call) -> Call {
        let access =
            CallAccess { writes: self.rule.writes(), streams: self.kind != MethodKind::Unary, ..call.access };
        Call { access, ..call }
    }

    /// Counts a call that ended, and whether this is the node's fault.
    fn count(&self, code: Code, is_fault: bool, time: Duration) {
        if let Some(counter) = self.answers(code) {
            counter.increment(1);
        }
        self.seconds().record(time);
        self.times.get_or_init(Box::default).record(time);
        if code != Code::Ok {
            self.errors.fetch_add(1, Ordering::Relaxed);
            self.faults.fetch_add(u64::from(is_fault), Ordering::Relaxed);
        }
    }

    /// `None`: it was not called.
    fn counted(&self) -> Option<MethodCounts> {
        let times = self.times.get()?;
        Some(MethodCounts {
            service: self.service.clone(),
            method: self.name.clone(),
            unary: self.kind == MethodKind::Unary,
            errors: self.errors.load(Ordering::Relaxed),
            faults: self.faults.load(Ordering::Relaxed),
            times: times.read(),
        })
    }

    fn answers(&self, code: Code) -> Option<&Counter> {
        let index = usize::try_from(i32::from(code)).ok()?;
        let counter = self.answers.get(index)?;
        Some(counter.get_or_init(|| {
            let (service, method) = (self.service.clone(), self.name.clone());
            metrics::counter!(metric::RPC_REQUESTS.name, "service" => service, "method" => method, "code" => CODES[index])
        }))
    }

    fn seconds(&self) -> &Histogram {
        self.seconds.get_or_init(|| {
            let (service, method) = (self.service.clone(), self.name.clone());
            metrics::histogram!(metric::RPC_SECONDS.name, "service" => service, "method" => method)
        })
    }
}

/// All methods by path.
#[derive(Debug)]
pub(super) struct Methods {
    by_path: HashMap<String, Arc<Method>, RandomState>,
    unknown: Arc<Method>,
}

impl Methods {
    pub(super) fn new() -> Self {
        let mut by_path = HashMap::default();
        let mut add = |method: Method| {
            by_path.insert(format!("/{}/{}", method.service, method.name), Arc::new(method));
        };
        for (service, name, kind, rule) in EXEMPT {
            let batch = kind != MethodKind::Unary;
            add(Method { exempt: true, batch, ..Method::new(service, name, kind, rule) });
        }
        for MethodDeclaration { service, name, kind, batch, rule, event } in &*CONTRACT {
            add(Method { batch: *batch, event: *event, ..Method::new(service, name, *kind, *rule) });
        }
        // Only callers learn which methods exist.
        let unknown =
            Method { known: false, ..Method::new("unknown", "unknown", MethodKind::Unary, Rule::AnyCaller) };
        Self { by_path, unknown: Arc::new(unknown) }
    }

    pub(super) fn of(&self, path: &str) -> &Arc<Method> {
        self.by_path.get(path).unwrap_or(&self.unknown)
    }

    /// The counts for all methods in the contract that were called, by service and method.
    pub(super) fn counted(&self) -> Vec<MethodCounts> {
        let methods = self.by_path.values().filter(|method| !method.exempt);
        let mut counted: Vec<_> = methods.filter_map(|method| method.counted()).collect();
        counted.sort_by(|one, other| (&one.service, &one.method).cmp(&(&other.service, &other.method)));
        counted
    }
}

/// The names of the contract's services.
pub(crate) fn services() -> Vec<String> {
    let mut names: Vec<_> = CONTRACT.iter().map(|declared| declared.service.clone()).collect();
    names.dedup();
    names
}

/// Counts one call: when its answer is known, or as cancelled when it is dropped before.
#[derive(Debug)]
pub(super) struct CallRecord {
    method: Arc<Method>,
    started: Instant,
    counted: bool,
    /// Set for few methods; boxed for that reason.
    event: Option<Box<EventCall>>,
    /// Counts it for its caller.
    caller: Option<Arc<CallerCounters>>,
    /// Its part in a trace; boxed because a node usually exports none.
    span: Option<Box<Span>>,
}

impl CallRecord {
    pub(super) const fn begin(method: Arc<Method>, started: Instant) -> Self {
        Self { method, started, counted: false, event: None, caller: None, span: None }
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    /// Counts it for this caller too.
    pub(super) fn count_for(&mut self, caller: Option<Arc<CallerCounters>>) {
        self.caller = caller;
    }

    /// Makes the call part of a trace, see [`trace::span`].
    pub(super) fn begin_span(&mut self, span: impl FnOnce(&Method) -> Span) {
        let span = span(&self.method);
        self.span = (!span.is_disabled()).then(|| Box::new(span));
    }

    /// Work until this is dropped is part of the call in its trace.
    pub(super) fn enter(&self) -> Option<Entered<'_>> {
        self.span.as_deref().map(Span::enter)
    }

    /// Marks a call that is a security event: its end is logged, and its beginning if that may be long
    /// before.
    pub(super) fn begin_event(&mut self, event: EventCall) {
        event.begin(&self.method.service, &self.method.name);
        self.event = Some(Box::new(event));
    }

    /// Whether its end is logged.
    pub(super) const fn is_event(&self) -> bool {
        self.event.is_some()
    }

    /// Counts it with this answer; once.
    pub(super) fn answered(&mut self, code: Code) {
        self.count(code, FAULTS.contains(&code));
    }

    fn count(&mut self, code: Code, is_fault: bool) {
        if std::mem::replace(&mut self.counted, true) {
            return;
        }
        self.method.count(code, is_fault, self.started.elapsed());
        if let Some(span) = &self.span {
            trace::end(span, code);
        }
        if let Some(caller) = &self.caller {
            caller.count(code);
        }
        if let Some(event) = self.event.take() {
            event.end(&self.method.service, &self.method.name, code);
        }
    }

    /// Like [`Self::answered`], but with a status, which may say why the call failed.
    pub(super) fn answered_with(&mut self, status: &Status) {
        if let (Some(event), false) = (&mut self.event, self.counted) {
            event.fail(status);
        }
        self.count(status.code(), is_fault(status));
    }
}

/// Whether the node did not bring a call to an end, and no limit that its caller has reached is the cause.
fn is_fault(status: &Status) -> bool {
    let of_node = || {
        let info = status.get_details_error_info();
        info.is_none_or(|info| EXHAUSTED_NODE.contains(&info.reason.as_str()))
    };
    FAULTS.contains(&status.code()) && (status.code() != Code::ResourceExhausted || of_node())
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        self.answered(Code::Cancelled);
    }
}

#[cfg(test)]
mod tests {
    use kith_service::error::Error;

    use super::*;

    #[test]
    fn contract_methods_are_known_by_path() {
        let methods = Methods::new();
        assert_eq!(methods.of("/kith.user.v1.UserService/GetUser").kind, MethodKind::Unary);
        assert_eq!(methods.of("/kith.user.v1.UserService/ImportUsers").kind, MethodKind::Stream);
        assert_eq!(methods.of("/grpc.health.v1.Health/Watch").kind, MethodKind::Watch);
        assert_eq!(methods.of("/kith.admin.v1.AdminService/WatchNode").kind, MethodKind::Watch);
        assert_eq!(methods.of("/kith.admin.v1.AdminService/VerifyEdges").kind, MethodKind::Watch);
        assert_eq!(methods.of("/kith.user.v1.UserService/VerifySecret").kind, MethodKind::Unary);
        assert!(!methods.of("/kith.user.v1.UserService/Nothing").known);
    }

    #[test]
    fn the_contract_gives_each_method_its_rules() {
        let pool = descriptors::pool().unwrap();
        let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let (mut watches, mut batches) = (0, 0);
        for method in methods.filter(|method| method.full_name().starts_with("kith.")) {
            let (name, rules) = (method.name(), descriptors::rules(&method));
            let answers = method.is_server_streaming() && !method.is_client_streaming();
            assert_eq!(rules.watch, answers && !name.starts_with("Export"), "{}", method.full_name());
            let words: &[_] = if answers { &["Export"] } else { &["Batch", "Import"] };
            let many = words.iter().any(|word| name.starts_with(word));
            assert!(rules.batch || !many, "{}", method.full_name());
            watches += usize::from(rules.watch);
            batches += usize::from(rules.batch);
        }
        assert!(watches >= 5 && batches >= 9, "{watches} watches, {batches} batches");
    }

    #[test]
    fn only_health_is_open_to_all() {
        let methods = Methods::new();
        let without = |rule: Rule| {
            let mut paths: Vec<_> =
                methods.by_path.iter().filter(|(_, method)| method.rule == rule).collect();
            paths.sort_by_key(|(path, _)| path.as_str());
            paths.into_iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(without(Rule::Open), ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"]);
        assert_eq!(
            without(Rule::AnyCaller),
            [
                "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
            ]
        );
        assert_eq!(methods.of("/kith.user.v1.UserService/Nothing").rule, Rule::AnyCaller);
    }

    #[test]
    fn a_method_without_rules_has_the_small_limits() {
        let methods = Methods::new();
        let limits = |path: &str| (methods.of(path).kind, methods.of(path).batch);
        assert_eq!(limits("/kith.user.v1.UserService/GetUser"), (MethodKind::Unary, false));
        assert_eq!(limits("/kith.user.v1.UserService/BatchGetUsers"), (MethodKind::Unary, true));
        assert_eq!(limits("/kith.user.v1.UserService/ImportUsers"), (MethodKind::Stream, true));
        assert_eq!(limits("/kith.presence.v1.PresenceService/WatchPresence"), (MethodKind::Watch, true));
        assert_eq!(limits("/kith.user.v1.UserService/Nothing"), (MethodKind::Unary, false));
        assert_eq!(limits("/grpc.health.v1.Health/Watch"), (MethodKind::Watch, true));
    }

    #[test]
    fn calls_are_counted_by_method_and_fault() {
        let methods = Methods::new();
        let counted = |path: &str, code| {
            CallRecord::begin(Arc::clone(methods.of(path)), Instant::now()).answered(code);
        };
        for code in [Code::Ok, Code::NotFound, Code::Internal] {
            counted("/kith.user.v1.UserService/GetUser", code);
        }
        counted("/grpc.health.v1.Health/Check", Code::Ok);
        counted("/kith.user.v1.UserService/ExportUsers", Code::Ok);
        let counted = methods.counted();
        let names: Vec<_> = counted.iter().map(|one| (one.method.as_str(), one.unary)).collect();
        assert_eq!(names, [("ExportUsers", false), ("GetUser", true)]);
        assert_eq!((counted[1].times.calls(), counted[1].errors, counted[1].faults), (3, 2, 1));
    }

    #[test]
    fn limit_of_a_caller_is_no_fault() {
        let of = |reason| is_fault(&Error::new(reason, "no").into());
        assert!(of(Reason::Overloaded) && of(Reason::StoreFull) && of(Reason::StoreUnavailable));
        for reason in
            [Reason::QuotaExceeded, Reason::MessageTooLarge, Reason::TooManyPending, Reason::NotFound]
        {
            assert!(!of(reason), "{reason:?}");
        }
    }
}
