//! Invalidations for messages that change in the store: documents and windows.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{Invalidation, remote::FeedError};
use kith_delivery::Windows;
use kith_store::{DocumentKey, FeedRecord};

use super::DOCUMENTS;
use crate::write::feed_mapping::FeedMapping;

/// The feed mappings for messages. `windows`: the windows of all conversations.
#[must_use]
pub fn feed_mappings(windows: Windows) -> Vec<Arc<dyn FeedMapping>> {
    vec![Arc::new(DocumentMapping { windows })]
}

#[derive(Debug)]
struct DocumentMapping {
    windows: Windows,
}

#[async_trait]
impl FeedMapping for DocumentMapping {
    fn namespace(&self) -> &'static str {
        DOCUMENTS
    }

    fn key(&self, record: &FeedRecord) -> Option<String> {
        match record {
            FeedRecord::Document(key) => Some(key.to_string()),
            _ => None,
        }
    }

    async fn dependents(&self, _key: &str) -> Result<Vec<Invalidation>, FeedError> {
        Ok(Vec::new())
    }

    /// The writer held no window: it was a change by hand, or its node died.
    async fn drop_others(&self, key: &str) -> Result<(), FeedError> {
        let Ok(DocumentKey { conversation, .. }) = key.parse() else { return Ok(()) };
        self.windows.forget(conversation).await.map_err(|_| FeedError::Unavailable)
    }
}
