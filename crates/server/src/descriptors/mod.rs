//! The descriptors for all served methods: for reflection, for JSON, and for `kith call`.

pub mod comments;

use kith_proto::{options::v1::MethodRules, r#type::v1::Access};
use prost_reflect::{DescriptorError, DescriptorPool, MethodDescriptor};
use prost_types::method_options::IdempotencyLevel;

/// The option with a method's rules.
const RULES: &str = "kith.options.v1.rules";
/// The option with a method's access rule.
const ACCESS: &str = "kith.type.v1.access";

/// The contract, health, and error details, so that callers that have only these descriptors can decode them.
pub(crate) const SETS: [&[u8]; 3] =
    [kith_proto::DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET, tonic_types::pb::FILE_DESCRIPTOR_SET];

/// All descriptors. Takes milliseconds: callers should keep the result.
///
/// # Errors
/// If the descriptors in the program cannot be decoded.
pub fn pool() -> Result<DescriptorPool, DescriptorError> {
    let mut pool = DescriptorPool::new();
    for set in SETS {
        pool.decode_file_descriptor_set(set)?;
    }
    Ok(pool)
}

/// The rules that the contract sets on a method; the default for a method without them.
pub(crate) fn rules(method: &MethodDescriptor) -> MethodRules {
    option(method, RULES).unwrap_or_default()
}

/// A method's access rule in the contract. `None` for a method without such a rule.
pub fn access(method: &MethodDescriptor) -> Option<Access> {
    option(method, ACCESS)
}

/// Whether the contract says that a method changes nothing (`NO_SIDE_EFFECTS`).
#[must_use]
pub fn only_reads(method: &MethodDescriptor) -> bool {
    let options = method.options();
    let level = options.get_field_by_name("idempotency_level").and_then(|level| level.as_enum_number());
    level == Some(i32::from(IdempotencyLevel::NoSideEffects))
}

fn option<M: prost::Message + Default>(method: &MethodDescriptor, name: &str) -> Option<M> {
    let extension = method.parent_pool().get_extension_by_name(name)?;
    let options = method.options();
    if !options.has_extension(&extension) {
        return None;
    }
    options.get_extension(&extension).as_message().and_then(|found| found.transcode_to().ok())
}
