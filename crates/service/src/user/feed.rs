//! The invalidations for users that change in the store.

use std::sync::Arc;

use kith_store::FeedRecord;

use super::{USERS, access::ACCESSES};
use crate::{
    rpc::versions::invalidation,
    write::feed_mapping::{FeedMapping, KeyMapping},
};

/// The feed mappings for users. The record's copy shows a user; the user's access is stored with it.
#[must_use]
pub fn feed_mappings() -> Vec<Arc<dyn FeedMapping>> {
    vec![Arc::new(KeyMapping {
        namespace: USERS,
        key: |record| match record {
            FeedRecord::User(id) => Some(id.to_string()),
            _ => None,
        },
        dependents: |key| vec![invalidation(ACCESSES, key.to_owned())],
    })]
}
