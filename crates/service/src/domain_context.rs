//! What every domain is built over.

use kith_store::Stores;

use crate::{
    rpc::secret::SecretHasher,
    write::{mutations::Mutations, tiers::Tiers},
};

/// What every domain is built over. Domains clone what they keep of it.
#[derive(Clone, Copy, Debug)]
pub struct DomainContext<'a> {
    /// Where the records are.
    pub stores: &'a Stores,
    /// The caches of this node.
    pub tiers: &'a Tiers,
    /// Runs the writes of this node.
    pub mutations: &'a Mutations,
    /// Hashes secrets, and the fingerprints of requests.
    pub hasher: &'a SecretHasher,
}
