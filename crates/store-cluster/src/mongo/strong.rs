//! Strong reads. MongoDB answers a linearizable read when a majority has confirmed that the primary still is
//! the primary; after an election a primary may for some seconds lack writes that the previous primary
//! acknowledged.

use async_trait::async_trait;
use kith_store::{Group, GroupId, StoreError, Stored, StrongReads, User, UserId};
use mongodb::options::ReadConcern;

use super::database::Mongo;

#[async_trait]
impl StrongReads for Mongo {
    async fn strong_users(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<User>)>, StoreError> {
        self.users_by(ids, ReadConcern::linearizable()).await
    }

    async fn strong_groups(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Stored<Group>)>, StoreError> {
        self.groups_by(ids, ReadConcern::linearizable()).await
    }
}
