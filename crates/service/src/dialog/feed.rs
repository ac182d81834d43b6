//! Invalidates dialogs that change in the store.

use std::sync::Arc;

use kith_store::FeedRecord;

use super::DIALOGS;
use crate::write::feed_mapping::{FeedMapping, KeyMapping};

/// Returns this domain's mappings. Lists are always read from the store.
#[must_use]
pub fn feed_mappings() -> Vec<Arc<dyn FeedMapping>> {
    vec![KeyMapping::of_record(DIALOGS, |record| match record {
        FeedRecord::Dialog(key) => Some(key.to_string()),
        _ => None,
    })]
}
