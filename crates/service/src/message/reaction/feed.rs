//! Invalidations for reactions that change in the store.

use std::sync::Arc;

use kith_store::FeedRecord;

use super::REACTIONS;
use crate::write::feed_mapping::{FeedMapping, KeyMapping};

/// The feed mappings for reactions.
#[must_use]
pub fn feed_mappings() -> Vec<Arc<dyn FeedMapping>> {
    vec![KeyMapping::of_record(REACTIONS, |record| match record {
        FeedRecord::Reactions(key) => Some(key.to_string()),
        _ => None,
    })]
}
