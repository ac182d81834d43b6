//! The descriptors of all that a node serves: for reflection, for JSON, and for `kith call`.

use prost_reflect::{DescriptorError, DescriptorPool};

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
