//! The user loader.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{Stored, Stores, StrongReads, User, UserId, UserStore};

use crate::rpc::versions::{loaded, loaded_all};

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
        let stored = if options.strong {
            let found = self.strong.strong_users(&[*id]).await;
            found.map(|found| found.into_iter().next().map_or(Stored::Never, |(_, stored)| stored))
        } else {
            self.store.user(*id).await
        };
        stored.map(loaded).map_err(LoadError::new)
    }

    async fn load_many(
        &self,
        ids: &[UserId],
        options: LoadOptions,
    ) -> Result<Vec<(UserId, Loaded<User>)>, LoadError> {
        loaded_all(if options.strong {
            self.strong.strong_users(ids).await
        } else {
            self.store.users(ids).await
        })
    }
}
