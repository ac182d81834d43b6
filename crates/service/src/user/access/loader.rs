//! Loads users' access.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{AccessStore, Stored, UserAccess, UserId};

use crate::rpc::versions::{loaded, loaded_all};

/// The name of the namespace in the tiers.
pub const ACCESSES: &str = "access";

/// Loads users' access from the store into the tiers.
#[derive(Debug)]
pub(super) struct AccessLoader(pub(super) Arc<dyn AccessStore>);

#[async_trait]
impl Loader<UserId, UserAccess> for AccessLoader {
    async fn load(&self, id: &UserId, options: LoadOptions) -> Result<Loaded<UserAccess>, LoadError> {
        let found =
            if options.strong { self.0.strong_accesses(&[*id]).await } else { self.0.accesses(&[*id]).await };
        let found = found.map_err(LoadError::new)?.into_iter().next();
        Ok(loaded(found.map_or(Stored::Never, |(_, stored)| stored)))
    }

    async fn load_many(
        &self,
        ids: &[UserId],
        options: LoadOptions,
    ) -> Result<Vec<(UserId, Loaded<UserAccess>)>, LoadError> {
        loaded_all(if options.strong {
            self.0.strong_accesses(ids).await
        } else {
            self.0.accesses(ids).await
        })
    }
}
