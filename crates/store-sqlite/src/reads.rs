//! Reads with one form for all kinds of records: by their keys, and by pages of a user's list.

use kith_store::{BATCH_MAX, ListPosition, StoreError, UserId, at_most};
use rusqlite::{Params, Row};

use crate::{
    batch::{BatchQuery, Key},
    error::Failure,
    readers::Readers,
    row::size,
    statement,
};

impl Readers {
    /// Returns the stored records for up to [`BATCH_MAX`] keys, each once, in any order.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] for more keys, or if the store cannot answer.
    pub(crate) async fn by_keys<K: Key, T: Send + 'static>(
        &self,
        query: &'static BatchQuery,
        keys: &[K],
        of: fn(&Row<'_>) -> Result<(K, T), Failure>,
    ) -> Result<Vec<(K, T)>, StoreError> {
        at_most(keys.len(), BATCH_MAX)?;
        let keys = keys.to_vec();
        self.read(move |connection| {
            let mut found = Vec::with_capacity(keys.len());
            query.run(connection, &keys, |row| {
                found.push(of(row)?);
                Ok(())
            })?;
            Ok(found)
        })
        .await
    }

    /// Returns all rows that `sql` finds for these values, as `of` reads them.
    ///
    /// # Errors
    /// If the store cannot answer.
    pub(crate) async fn all<T: Send + 'static>(
        &self,
        sql: &'static str,
        values: impl Params + Send + 'static,
        of: impl Fn(&Row<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<Vec<T>, StoreError> {
        self.read(move |connection| statement::all(connection, sql, values, of)).await
    }

    /// Returns the entries in a list of `user` after a position, at most `limit`. `sql` takes the user, the
    /// position's two numbers and the limit.
    ///
    /// # Errors
    /// If the store cannot answer.
    pub(crate) async fn page<T: Send + 'static>(
        &self,
        sql: &'static str,
        user: UserId,
        after: Option<ListPosition>,
        limit: usize,
        of: fn(&Row<'_>) -> Result<T, Failure>,
    ) -> Result<Vec<T>, StoreError> {
        let (at, other) = after.map_or((i64::MAX, i64::MAX), |position| (position.at.0, position.user.get()));
        self.all(sql, (user.get(), at, other, size(limit)), of).await
    }
}
