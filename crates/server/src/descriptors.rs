//! The descriptors of all that a node serves: for reflection, for JSON, and for `kith call`.

use kith_proto::options::v1::MethodRules;
use prost_reflect::{DescriptorError, DescriptorPool, MethodDescriptor};

/// The option that holds the rules of a method.
const RULES: &str = "kith.options.v1.rules";

/// The contract, health, and the details of errors, so that callers which know nothing but these can read them.
pub(crate) const SETS: [&[u8]; 3] =
    [kith_proto::DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET, tonic_types::pb::FILE_DESCRIPTOR_SET];

/// All of them. Takes milliseconds: keep it.
///
/// # Errors
/// When what is built into the program cannot be read.
pub fn pool() -> Result<DescriptorPool, DescriptorError> {
    let mut pool = DescriptorPool::new();
    for set in SETS {
        pool.decode_file_descriptor_set(set)?;
    }
    Ok(pool)
}

/// The rules that the contract sets on a method; the default for a method without them.
pub(crate) fn rules(method: &MethodDescriptor) -> MethodRules {
    let Some(option) = method.parent_pool().get_extension_by_name(RULES) else {
        return MethodRules::default();
    };
    let options = method.options();
    let rules = options.get_extension(&option);
    rules.as_message().and_then(|rules| rules.transcode_to().ok()).unwrap_or_default()
}
