//! Loads documents.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{DocumentKey, LogDocument, MessageStore, Stored};

use crate::rpc::versions::loaded;

/// Loads documents from the store into the tiers.
#[derive(Debug)]
pub(in crate::message) struct DocumentLoader(pub(in crate::message) Arc<dyn MessageStore>);

#[async_trait]
impl Loader<DocumentKey, LogDocument> for DocumentLoader {
    /// One read for each: a store answer must not contain many. Ignores `strong`: no caller uses it for
    /// documents.
    async fn load_many(
        &self,
        keys: &[DocumentKey],
        _options: LoadOptions,
    ) -> Result<Vec<(DocumentKey, Loaded<LogDocument>)>, LoadError> {
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let document = self.0.document(*key).await.map_err(LoadError::new)?;
            let stored = document.map_or(Stored::Never, |document| Stored::Live(Arc::new(document)));
            found.push((*key, loaded(stored)));
        }
        Ok(found)
    }
}
