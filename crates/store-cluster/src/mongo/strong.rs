//! Strong reads. MongoDB answers a linearizable one when a majority has confirmed that the primary still is one; after
//! an election a primary may for some seconds know less of what a majority has than the one before acknowledged.

use async_trait::async_trait;
use kith_store::{Group, GroupId, StoreError, Stored, StrongReads, User, UserId};
use mongodb::options::ReadConcern;

use super::{connect::Mongo, group::group_id, user::user_id};

#[async_trait]
impl StrongReads for Mongo {
    async fn strong_users(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<User>)>, StoreError> {
        let _entered = self.enter()?;
        let ids = ids.iter().map(|id| id.get()).collect();
        let found = self.many(ids, ReadConcern::linearizable()).await?;
        found.into_iter().map(|(id, user)| Ok((user_id(id)?, user))).collect()
    }

    async fn strong_groups(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Stored<Group>)>, StoreError> {
        let _entered = self.enter()?;
        let ids = ids.iter().map(|id| id.get()).collect();
        let found = self.many(ids, ReadConcern::linearizable()).await?;
        found.into_iter().map(|(id, group)| Ok((group_id(id)?, group))).collect()
    }
}
