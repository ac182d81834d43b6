//! What changes of messages in the store mean for copies of documents.

use std::sync::Arc;

use kith_store::FeedRecord;

use super::DOCUMENTS;
use crate::write::feed_mapping::{FeedMapping, KeyMapping};

/// The mappings of this domain.
#[must_use]
pub fn feed_mappings() -> Vec<Arc<dyn FeedMapping>> {
    vec![Arc::new(KeyMapping {
        namespace: DOCUMENTS,
        key: |record| match record {
            FeedRecord::Document(key) => Some(key.to_string()),
            _ => None,
        },
        dependents: |_| Vec::new(),
    })]
}
