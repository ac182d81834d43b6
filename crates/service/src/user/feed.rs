//! The invalidations for changes of users in the store.

use std::sync::Arc;

use kith_store::FeedRecord;

use super::USERS;
use crate::write::feed_mapping::{FeedMapping, KeyMapping};

/// The mappings of this domain. Only the copy of the record shows a user.
#[must_use]
pub fn feed_mappings() -> Vec<Arc<dyn FeedMapping>> {
    vec![KeyMapping::of_record(USERS, |record| match record {
        FeedRecord::User(id) => Some(id.to_string()),
        _ => None,
    })]
}
