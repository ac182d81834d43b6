use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{Stored, User, UserId, UserStore};

use crate::versions::cache_version;

/// Loads users from the store into the tiers.
#[derive(Debug)]
pub(super) struct UserLoader(pub(super) Arc<dyn UserStore>);

#[async_trait]
impl Loader<UserId, User> for UserLoader {
    async fn load(&self, id: &UserId, _options: LoadOptions) -> Result<Loaded<User>, LoadError> {
        self.0.user(*id).await.map(loaded).map_err(LoadError::new)
    }

    async fn load_many(
        &self,
        ids: &[UserId],
        _options: LoadOptions,
    ) -> Result<Vec<(UserId, Loaded<User>)>, LoadError> {
        let found = self.0.users(ids).await.map_err(LoadError::new)?;
        Ok(found.into_iter().map(|(id, user)| (id, loaded(user))).collect())
    }
}

fn loaded(stored: Stored<User>) -> Loaded<User> {
    match stored {
        Stored::Live(user) => Loaded::Found { version: cache_version(user.version), value: Arc::new(user) },
        Stored::Deleted(version) => Loaded::Absent { version: cache_version(version) },
        Stored::Never => Loaded::Absent { version: kith_cache::Version::default() },
    }
}
