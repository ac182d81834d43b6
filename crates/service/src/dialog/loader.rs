//! The loader of dialogs.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{Dialog, DialogKey, DialogStore};

use crate::rpc::versions::loaded_live;

/// Loads dialogs from the store into the tiers.
#[derive(Debug)]
pub(super) struct DialogLoader(pub(super) Arc<dyn DialogStore>);

#[async_trait]
impl Loader<DialogKey, Dialog> for DialogLoader {
    /// Strong reads do not differ: no decision that uses a dialog needs the marks from the last seconds.
    async fn load_many(
        &self,
        keys: &[DialogKey],
        _options: LoadOptions,
    ) -> Result<Vec<(DialogKey, Loaded<Dialog>)>, LoadError> {
        loaded_live(self.0.dialogs(keys).await, |dialog| dialog.key)
    }
}
