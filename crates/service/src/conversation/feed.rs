//! Invalidations for conversations that change in the store.

use std::sync::Arc;

use kith_store::FeedRecord;

use super::CONVERSATIONS;
use crate::write::feed_mapping::{FeedMapping, KeyMapping};

/// The feed mappings for conversations.
#[must_use]
pub fn feed_mappings() -> Vec<Arc<dyn FeedMapping>> {
    vec![KeyMapping::of_record(CONVERSATIONS, |record| match record {
        FeedRecord::Conversation(id) => Some(id.to_string()),
        _ => None,
    })]
}
