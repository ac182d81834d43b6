//! The contract's methods by path, with their message descriptors.

use std::{collections::HashMap, sync::LazyLock};

use prost_reflect::{DescriptorPool, MessageDescriptor, MethodDescriptor};

use crate::descriptors;

#[derive(Debug)]
pub(super) struct Rpc {
    pub(super) path: String,
    pub(super) name: String,
    pub(super) input: MessageDescriptor,
    pub(super) output: MessageDescriptor,
    /// Whether either side streams; it has no JSON form then.
    pub(super) streams: bool,
    /// Whether its message has many records.
    pub(super) batch: bool,
}

struct Catalogue {
    pool: DescriptorPool,
    by_path: HashMap<String, Rpc>,
}

/// Created at the first call that needs it: a node that serves only gRPC has no cost.
static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    let pool = descriptors::pool().expect("the descriptors are built into the program");
    let rpcs = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let by_path = rpcs.map(|method| Rpc::of(&method)).map(|rpc| (rpc.path.clone(), rpc)).collect();
    Catalogue { pool, by_path }
});

impl Rpc {
    fn of(method: &MethodDescriptor) -> Self {
        Self {
            path: format!("/{}/{}", method.parent_service().full_name(), method.name()),
            name: method.name().to_owned(),
            input: method.input(),
            output: method.output(),
            streams: method.is_client_streaming() || method.is_server_streaming(),
            batch: descriptors::rules(method).batch,
        }
    }
}

/// The method with this path.
pub(super) fn rpc(path: &str) -> Option<&'static Rpc> {
    CATALOGUE.by_path.get(path)
}

/// The message with this full name.
pub(super) fn message(name: &str) -> Option<MessageDescriptor> {
    CATALOGUE.pool.get_message_by_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contract_health_and_error_details_are_known() {
        assert!(rpc("/kith.user.v1.UserService/GetUser").is_some_and(|rpc| !rpc.streams && !rpc.batch));
        assert!(rpc("/kith.user.v1.UserService/BatchGetUsers").is_some_and(|rpc| rpc.batch));
        assert!(rpc("/kith.user.v1.UserService/ExportUsers").is_some_and(|rpc| rpc.streams));
        assert!(rpc("/grpc.health.v1.Health/Check").is_some_and(|rpc| !rpc.streams));
        assert!(rpc("/kith.user.v1.UserService/Nothing").is_none());
        for detail in ["ErrorInfo", "BadRequest", "RetryInfo", "Help"] {
            assert!(message(&format!("google.rpc.{detail}")).is_some(), "{detail}");
        }
    }
}
