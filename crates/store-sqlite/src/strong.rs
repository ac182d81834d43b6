//! One process writes and reads the file: a read that begins after a commit sees it.

use async_trait::async_trait;
use kith_store::{
    Group, GroupId, GroupStore as _, StoreError, Stored, StrongReads, User, UserId, UserStore as _,
};

use crate::Sqlite;

#[async_trait]
impl StrongReads for Sqlite {
    async fn strong_users(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<User>)>, StoreError> {
        self.users(ids).await
    }

    async fn strong_groups(&self, ids: &[GroupId]) -> Result<Vec<(GroupId, Stored<Group>)>, StoreError> {
        self.groups(ids).await
    }
}
