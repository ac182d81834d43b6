//! Whether users are let in: columns in the table of users.

use std::sync::LazyLock;

use async_trait::async_trait;
use kith_store::{
    AccessChange, AccessStore, Applied, StoreError, Stored, Suspension, Timestamp, UserAccess, UserId, Write,
};
use rusqlite::{Connection, Row, params};

use crate::{
    Sqlite,
    batch::BatchQuery,
    error::{Failure, corrupt},
    row::{moment, text, user_id, version},
    state::{check_expected, live_version},
    statement::{first, run},
    user,
};

macro_rules! select {
    () => {
        "SELECT id, access_version, account, tokens_from_ms, suspension_reason IS NOT NULL, suspended_until_ms, \
         suspension_reason FROM users"
    };
}

/// Uses the primary key.
pub(crate) const BY_ID: &str = concat!(select!(), " WHERE id = ?1");
/// Uses the primary key.
pub(crate) static BY_IDS: LazyLock<BatchQuery> = LazyLock::new(|| BatchQuery::new(select!()));
/// Uses the primary key. A NULL reason ends the suspension.
pub(crate) const SUSPEND: &str =
    "UPDATE users SET version = version + 1, access_version = access_version + 1,
    suspended_until_ms = ?2, suspension_reason = ?3 WHERE id = ?1";
/// Uses the primary key.
pub(crate) const REFUSE_TOKENS: &str = "UPDATE users SET version = version + 1,
    access_version = access_version + 1, tokens_from_ms = MAX(tokens_from_ms, ?2) WHERE id = ?1";

#[async_trait]
impl AccessStore for Sqlite {
    async fn accesses(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<UserAccess>)>, StoreError> {
        self.readers
            .by_keys(&BY_IDS, ids, |row| access_of(row).map(|access| (access.user, access.stored())))
            .await
    }

    /// One process writes and reads the file: a read that begins after a commit sees it.
    async fn strong_accesses(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<UserAccess>)>, StoreError> {
        self.accesses(ids).await
    }

    async fn change_access(
        &self,
        id: UserId,
        change: AccessChange,
        write: Write,
    ) -> Result<Applied<UserAccess>, StoreError> {
        self.writer.once(write, move |connection, write| apply(connection, id, &change, write)).await
    }
}

fn apply(
    connection: &Connection,
    id: UserId,
    change: &AccessChange,
    write: &Write,
) -> Result<UserAccess, Failure> {
    check_expected(write, live_version(connection, user::STATE, id.get())?)?;
    match change {
        AccessChange::Suspend(Suspension { until, reason }) => {
            run(connection, SUSPEND, params![id.get(), until.map(|until| until.0), reason.as_str()])?;
        }
        AccessChange::Resume => run(connection, SUSPEND, params![id.get(), None::<i64>, None::<&str>])?,
        AccessChange::RefuseTokens(at) => run(connection, REFUSE_TOKENS, [id.get(), at.0])?,
    }
    first(connection, BY_ID, [id.get()], access_of)?.ok_or_else(|| StoreError::NotFound.into())
}

fn access_of(row: &Row<'_>) -> Result<UserAccess, Failure> {
    let suspension =
        if row.get(4)? { Some(Suspension { until: moment(row, 5)?, reason: text(row, 6)? }) } else { None };
    Ok(UserAccess {
        user: user_id(row, 0, "users.id")?,
        version: version(row, 1)?,
        account: u32::try_from(row.get::<_, i64>(2)?).map_err(|_| corrupt("users.account"))?,
        tokens_from: Timestamp(row.get(3)?),
        suspension,
    })
}
