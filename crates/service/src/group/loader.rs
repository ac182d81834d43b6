//! The group loader.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{Group, GroupId, GroupStore, Stored, Stores, StrongReads};

use crate::rpc::versions::{loaded, loaded_all};

/// Loads groups from the store into the tiers.
#[derive(Debug)]
pub(super) struct GroupLoader {
    store: Arc<dyn GroupStore>,
    strong: Arc<dyn StrongReads>,
}

impl GroupLoader {
    pub(super) fn new(stores: &Stores) -> Self {
        Self { store: Arc::clone(&stores.groups), strong: Arc::clone(&stores.strong) }
    }
}

#[async_trait]
impl Loader<GroupId, Group> for GroupLoader {
    async fn load(&self, id: &GroupId, options: LoadOptions) -> Result<Loaded<Group>, LoadError> {
        let stored = if options.strong {
            let found = self.strong.strong_groups(&[*id]).await;
            found.map(|found| found.into_iter().next().map_or(Stored::Never, |(_, stored)| stored))
        } else {
            self.store.group(*id).await
        };
        stored.map(loaded).map_err(LoadError::new)
    }

    async fn load_many(
        &self,
        ids: &[GroupId],
        options: LoadOptions,
    ) -> Result<Vec<(GroupId, Loaded<Group>)>, LoadError> {
        loaded_all(if options.strong {
            self.strong.strong_groups(ids).await
        } else {
            self.store.groups(ids).await
        })
    }
}
