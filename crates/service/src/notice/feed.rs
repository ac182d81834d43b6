//! The invalidations for changes of audiences and notices in the store. Readers are not in the feed: a mark whose node
//! died before it could notify the others was not acknowledged, and copies expire.

use std::sync::Arc;

use kith_store::FeedRecord;

use super::{AUDIENCES, NOTICES};
use crate::write::feed_mapping::{FeedMapping, KeyMapping};

/// The mappings of this domain.
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
