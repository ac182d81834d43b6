//! A user store that replaces a node's, and whose every answer is the same fault; and the errors of stores.

use std::{io, sync::Arc};

use async_trait::async_trait;
use kith_proto::user::v1::user_service_client::UserServiceClient;
use kith_server::{config::Config, edge::Edge};
use kith_store::*;

use crate::bare_node;

/// The error that every store call returns; `None`: it never ends.
#[derive(Debug)]
struct Broken(Option<StoreError>);

/// Starts a node without a network, over a user store that fails so. The handle keeps the rest of its store
/// open.
pub(crate) async fn node(
    fault: Option<StoreError>,
    config: &Config,
) -> (UserServiceClient<Edge>, kith_store_sqlite::SqliteHandle) {
    let file = kith_store_sqlite::open_in_memory().await.unwrap();
    let mut stores = file.stores();
    stores.users = Arc::new(Broken(fault));
    let (edge, _) = bare_node::serve(&stores, config).await;
    (UserServiceClient::new(edge), file)
}

/// Makes a driver's error, with text that must not reach callers.
pub(crate) fn driver() -> Arc<io::Error> {
    Arc::new(io::Error::other("mongodb://kith:hunter2@db.example:27017 refused SELECT email FROM user"))
}

/// Makes the error of a store that does not answer.
pub(crate) fn away(outcome: Outcome) -> StoreError {
    StoreError::Unavailable { outcome, source: driver() }
}

impl Broken {
    async fn answer<T>(&self) -> Result<T, StoreError> {
        match &self.0 {
            Some(fault) => Err(fault.clone()),
            None => std::future::pending().await,
        }
    }
}

#[async_trait]
impl UserStore for Broken {
    async fn user(&self, _: UserId) -> Result<Stored<User>, StoreError> {
        self.answer().await
    }

    async fn users(&self, _: &[UserId]) -> Result<Vec<(UserId, Stored<User>)>, StoreError> {
        self.answer().await
    }

    async fn user_by_name(&self, _: &UserName) -> Result<Option<User>, StoreError> {
        self.answer().await
    }

    async fn search_users(&self, _: &Keyword, _: Option<UserId>, _: usize) -> Result<Vec<User>, StoreError> {
        self.answer().await
    }

    async fn scan_users(&self, _: Option<UserId>, _: usize) -> Result<Vec<User>, StoreError> {
        self.answer().await
    }

    async fn create_user(&self, _: NewUser, _: Write) -> Result<Applied<User>, StoreError> {
        self.answer().await
    }

    async fn update_user(&self, _: UserId, _: UserPatch, _: Write) -> Result<Applied<User>, StoreError> {
        self.answer().await
    }

    async fn delete_user(&self, _: UserId, _: Timestamp, _: Write) -> Result<Applied<Version>, StoreError> {
        self.answer().await
    }

    async fn release_id(&self, _: UserId, _: Timestamp) -> Result<(), StoreError> {
        self.answer().await
    }
}
