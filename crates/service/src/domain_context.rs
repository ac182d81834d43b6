//! The context of every domain.

use kith_store::Stores;

use crate::{
    rpc::secret::SecretHasher,
    write::{caches::CacheFactory, mutations::Mutations},
};

/// The context of every domain. Domains clone the parts that they keep.
#[derive(Clone, Copy, Debug)]
pub struct DomainContext<'a> {
    /// The stores.
    pub stores: &'a Stores,
    /// This node's caches.
    pub caches: &'a CacheFactory,
    /// Runs this node's writes.
    pub mutations: &'a Mutations,
    /// Hashes secrets, and the fingerprints of requests.
    pub hasher: &'a SecretHasher,
}
