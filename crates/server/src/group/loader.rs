use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{Group, GroupId, GroupStore, Stored};

use crate::versions::loaded;

/// Loads groups from the store into the tiers.
#[derive(Debug)]
pub(super) struct GroupLoader(pub(super) Arc<dyn GroupStore>);

#[async_trait]
impl Loader<GroupId, Group> for GroupLoader {
    async fn load(&self, id: &GroupId, _options: LoadOptions) -> Result<Loaded<Group>, LoadError> {
        self.0.group(*id).await.map(group).map_err(LoadError::new)
    }

    async fn load_many(
        &self,
        ids: &[GroupId],
        _options: LoadOptions,
    ) -> Result<Vec<(GroupId, Loaded<Group>)>, LoadError> {
        let found = self.0.groups(ids).await.map_err(LoadError::new)?;
        Ok(found.into_iter().map(|(id, stored)| (id, group(stored))).collect())
    }
}

fn group(stored: Stored<Group>) -> Loaded<Group> {
    loaded(stored, |group| group.version)
}
