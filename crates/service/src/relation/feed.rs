//! How copies change when follows and blocks change in the store.

use std::sync::Arc;

use kith_store::FeedRecord;

use super::{BLOCKS, FOLLOWS, block_invalidations, follow_invalidations};
use crate::write::feed_mapping::{FeedMapping, KeyMapping};

/// The feed mappings for relations.
#[must_use]
pub fn feed_mappings() -> Vec<Arc<dyn FeedMapping>> {
    vec![
        Arc::new(KeyMapping {
            namespace: FOLLOWS,
            key: |record| match record {
                FeedRecord::Follow(edge) => Some(edge.to_string()),
                _ => None,
            },
            dependents: |key| key.parse().map(follow_invalidations).unwrap_or_default(),
        }),
        Arc::new(KeyMapping {
            namespace: BLOCKS,
            key: |record| match record {
                FeedRecord::Block(edge) => Some(edge.to_string()),
                _ => None,
            },
            dependents: |key| key.parse().map(block_invalidations).unwrap_or_default(),
        }),
    ]
}
