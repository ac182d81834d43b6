//! The contract's methods.

use std::sync::LazyLock;

use kith_server::descriptors;
use prost_reflect::{DescriptorPool, MethodDescriptor};

/// The descriptors take milliseconds to read, and thousands of calls are made by them.
pub static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| descriptors::pool().unwrap());

/// Returns every method in Kith's services, in contract order.
pub fn methods() -> Vec<MethodDescriptor> {
    let services = POOL.services().filter(|service| service.full_name().starts_with("kith."));
    services.flat_map(|service| service.methods().collect::<Vec<_>>()).collect()
}

pub fn is_unary(method: &MethodDescriptor) -> bool {
    !method.is_client_streaming() && !method.is_server_streaming()
}

/// Returns the path by which a method is called.
pub fn path_of(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}
