//! The methods of the contract, and what is counted of each.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use ahash::RandomState;
use metrics::{Counter, Histogram};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tokio::time::Instant;
use tonic::Code;

use crate::metric;

/// Name of every code, by its number.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The services that are there from the first moment on, bound by no limit: `service`, `method`, kind.
const EXEMPT: [(&str, &str, Kind); 4] = [
    ("grpc.health.v1.Health", "Check", Kind::Unary),
    ("grpc.health.v1.Health", "Watch", Kind::Watch),
    ("grpc.reflection.v1.ServerReflection", "ServerReflectionInfo", Kind::Watch),
    ("grpc.reflection.v1alpha.ServerReflection", "ServerReflectionInfo", Kind::Watch),
];

/// How long the life of a call is bounded, and whether a stop of the node ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One message each way: the deadline bounds the handler.
    Unary,
    /// Messages that end by themselves: a stop waits for them.
    Stream,
    /// Messages without an end: a stop ends them.
    Watch,
}

/// One method. What is counted of it is looked up once, so that a call costs no lookup by name.
#[derive(Debug)]
pub(super) struct Method {
    pub(super) service: String,
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Of health and reflection.
    pub(super) exempt: bool,
    /// Of the contract, or exempt.
    pub(super) known: bool,
    /// Whether its message is one of many records; it may be larger then.
    pub(super) batch: bool,
    answers: [OnceLock<Counter>; CODES.len()],
    seconds: OnceLock<Histogram>,
}

impl Method {
    fn new(service: &str, name: &str, kind: Kind, exempt: bool) -> Self {
        Self {
            service: service.to_owned(),
            name: name.to_owned(),
            kind,
            exempt,
            known: true,
            batch: kind != Kind::Unary || takes_many(name),
            answers: Default::default(),
            seconds: OnceLock::new(),
        }
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
        for (service, name, kind) in EXEMPT {
            add(Method::new(service, name, kind, true));
        }
        for (service, name, streams) in contract() {
            let kind = if streams { Kind::Stream } else { Kind::Unary };
            add(Method::new(&service, &name, kind, false));
        }
        let unknown = Method { known: false, ..Method::new("unknown", "unknown", Kind::Unary, false) };
        Self { by_path, unknown: Arc::new(unknown) }
    }

    pub(super) fn of(&self, path: &str) -> &Arc<Method> {
        self.by_path.get(path).unwrap_or(&self.unknown)
    }
}

/// Service, method, and whether either side streams, of all that the contract has.
fn contract() -> Vec<(String, String, bool)> {
    let set = FileDescriptorSet::decode(kith_proto::DESCRIPTOR_SET).unwrap_or_default();
    let mut methods = Vec::new();
    for file in &set.file {
        for service in &file.service {
            let name = format!("{}.{}", file.package(), service.name());
            methods.extend(service.method.iter().map(|method| {
                let streams = method.client_streaming() || method.server_streaming();
                (name.clone(), method.name().to_owned(), streams)
            }));
        }
    }
    methods
}

/// Whether the message of a unary method of this name is one of many records, by the words of the contract.
pub(crate) fn takes_many(method: &str) -> bool {
    method.starts_with("Batch")
}

/// Name of a gRPC code, as the protocol writes it.
pub(crate) fn code_name(code: Code) -> &'static str {
    usize::try_from(i32::from(code)).ok().and_then(|at| CODES.get(at)).copied().unwrap_or("UNKNOWN")
}

/// Names of the services of the contract.
pub(crate) fn services() -> Vec<String> {
    let mut names: Vec<_> = contract().into_iter().map(|(service, ..)| service).collect();
    names.dedup();
    names
}

/// Counts one call: when its answer is known, or as cancelled when it is dropped before.
#[derive(Debug)]
pub(super) struct Record {
    method: Arc<Method>,
    started: Instant,
    counted: bool,
}

impl Record {
    pub(super) const fn begin(method: Arc<Method>, started: Instant) -> Self {
        Self { method, started, counted: false }
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    /// Counts it with this answer; once.
    pub(super) fn answered(&mut self, code: Code) {
        if std::mem::replace(&mut self.counted, true) {
            return;
        }
        if let Some(counter) = self.method.answers(code) {
            counter.increment(1);
        }
        self.method.seconds().record(self.started.elapsed());
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.answered(Code::Cancelled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_methods_of_the_contract_are_known_by_their_path() {
        let methods = Methods::new();
        assert_eq!(methods.of("/kith.user.v1.UserService/GetUser").kind, Kind::Unary);
        assert_eq!(methods.of("/kith.user.v1.UserService/ImportUsers").kind, Kind::Stream);
        assert_eq!(methods.of("/grpc.health.v1.Health/Watch").kind, Kind::Watch);
        assert!(!methods.of("/kith.user.v1.UserService/Nothing").known);
    }

    #[test]
    fn the_codes_are_named_by_their_number() {
        assert_eq!(CODES[Code::Unauthenticated as usize], "UNAUTHENTICATED");
        assert_eq!(CODES[Code::OutOfRange as usize], "OUT_OF_RANGE");
    }
}
