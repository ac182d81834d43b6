use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{Group, GroupId, GroupStore, Stored, Stores, StrongReads};

use crate::rpc::versions::loaded;

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
        if options.strong {
            let found = self.strong.strong_groups(&[*id]).await.map_err(LoadError::new)?;
            let stored = found.into_iter().next().map_or(Stored::Never, |(_, stored)| stored);
            return Ok(group(stored));
        }
        self.store.group(*id).await.map(group).map_err(LoadError::new)
    }

    async fn load_many(
        &self,
        ids: &[GroupId],
        options: LoadOptions,
    ) -> Result<Vec<(GroupId, Loaded<Group>)>, LoadError> {
        let found =
            if options.strong { self.strong.strong_groups(ids).await } else { self.store.groups(ids).await };
        let found = found.map_err(LoadError::new)?;
        Ok(found.into_iter().map(|(id, stored)| (id, group(stored))).collect())
    }
}

fn group(stored: Stored<Group>) -> Loaded<Group> {
    loaded(stored, |group| group.version)
}
