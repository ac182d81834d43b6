use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{Stored, Stores, StrongReads, User, UserId, UserStore};

use crate::rpc::versions::loaded;

/// Loads users from the store into the tiers.
#[derive(Debug)]
pub(super) struct UserLoader {
    store: Arc<dyn UserStore>,
    strong: Arc<dyn StrongReads>,
}

impl UserLoader {
    pub(super) fn new(stores: &Stores) -> Self {
        Self { store: Arc::clone(&stores.users), strong: Arc::clone(&stores.strong) }
    }
}

#[async_trait]
impl Loader<UserId, User> for UserLoader {
    async fn load(&self, id: &UserId, options: LoadOptions) -> Result<Loaded<User>, LoadError> {
        if options.strong {
            let found = self.strong.strong_users(&[*id]).await.map_err(LoadError::new)?;
            let stored = found.into_iter().next().map_or(Stored::Never, |(_, stored)| stored);
            return Ok(user(stored));
        }
        self.store.user(*id).await.map(user).map_err(LoadError::new)
    }

    async fn load_many(
        &self,
        ids: &[UserId],
        options: LoadOptions,
    ) -> Result<Vec<(UserId, Loaded<User>)>, LoadError> {
        let found =
            if options.strong { self.strong.strong_users(ids).await } else { self.store.users(ids).await };
        let found = found.map_err(LoadError::new)?;
        Ok(found.into_iter().map(|(id, stored)| (id, user(stored))).collect())
    }
}

fn user(stored: Stored<User>) -> Loaded<User> {
    loaded(stored, |user| user.version)
}
