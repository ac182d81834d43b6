use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{Dialog, DialogKey, DialogStore, Stored};

use crate::rpc::versions::loaded;

/// Loads dialogs from the store into the tiers.
#[derive(Debug)]
pub(super) struct DialogLoader(pub(super) Arc<dyn DialogStore>);

#[async_trait]
impl Loader<DialogKey, Dialog> for DialogLoader {
    async fn load(&self, key: &DialogKey, options: LoadOptions) -> Result<Loaded<Dialog>, LoadError> {
        let found = self.load_many(std::slice::from_ref(key), options).await?;
        Ok(found.into_iter().next().map_or_else(|| dialog(Stored::Never), |(_, found)| found))
    }

    /// Strong reads are the same: no decision by a dialog needs the marks of the last seconds.
    async fn load_many(
        &self,
        keys: &[DialogKey],
        _options: LoadOptions,
    ) -> Result<Vec<(DialogKey, Loaded<Dialog>)>, LoadError> {
        let found = self.0.dialogs(keys).await.map_err(LoadError::new)?.into_iter();
        Ok(found.map(|found| (found.key, dialog(Stored::Live(Arc::new(found))))).collect())
    }
}

fn dialog(stored: Stored<Dialog>) -> Loaded<Dialog> {
    loaded(stored, |dialog| dialog.version)
}
