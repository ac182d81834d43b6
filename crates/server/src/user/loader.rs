use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{Stored, User, UserId, UserStore};

use crate::versions::loaded;

/// Loads users from the store into the tiers.
#[derive(Debug)]
pub(super) struct UserLoader(pub(super) Arc<dyn UserStore>);

#[async_trait]
impl Loader<UserId, User> for UserLoader {
    async fn load(&self, id: &UserId, _options: LoadOptions) -> Result<Loaded<User>, LoadError> {
        self.0.user(*id).await.map(user).map_err(LoadError::new)
    }

    async fn load_many(
        &self,
        ids: &[UserId],
        _options: LoadOptions,
    ) -> Result<Vec<(UserId, Loaded<User>)>, LoadError> {
        let found = self.0.users(ids).await.map_err(LoadError::new)?;
        Ok(found.into_iter().map(|(id, stored)| (id, user(stored))).collect())
    }
}

fn user(stored: Stored<User>) -> Loaded<User> {
    loaded(stored, |user| user.version)
}
