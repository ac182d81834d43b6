//! The context that every domain gets.

use kith_store::Stores;

use crate::{
    rpc::secret::SecretHasher,
    write::{caches::CacheFactory, mutations::Mutations},
};

/// The context that every domain gets. Domains clone the parts that they keep.
#[derive(Clone, Copy, Debug)]
pub struct DomainContext<'a> {
    /// All stores of the node.
    pub stores: &'a Stores,
    /// This node's caches.
    pub caches: &'a CacheFactory,
    /// Runs this node's writes.
    pub mutations: &'a Mutations,
    /// Hashes secrets and request fingerprints.
    pub hasher: &'a SecretHasher,
}
