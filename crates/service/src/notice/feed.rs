//! The invalidations for audiences and notices that change in the store. Readers are not in the feed: if a
//! node dies before it can broadcast a mark, the mark was not acknowledged, and old copies expire.

use std::sync::Arc;

use kith_store::FeedRecord;

use super::{AUDIENCES, NOTICES};
use crate::write::feed_mapping::{FeedMapping, KeyMapping};

/// The feed mappings for audiences and notices.
#[must_use]
pub fn feed_mappings() -> Vec<Arc<dyn FeedMapping>> {
    vec![
        KeyMapping::of_record(AUDIENCES, |record| match record {
            FeedRecord::Audience(id) => Some(id.to_string()),
            _ => None,
        }),
        KeyMapping::of_record(NOTICES, |record| match record {
            FeedRecord::Notice(id) => Some(id.to_string()),
            _ => None,
        }),
    ]
}
