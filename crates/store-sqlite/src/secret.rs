//! Secrets: a separate table, written in their owner's transaction.

use async_trait::async_trait;
use kith_store::{SecretChange, SecretOwner, SecretStore, StoreError, StoredSecret};
use rusqlite::{Connection, Row, params};

use crate::{
    Sqlite,
    error::Failure,
    statement::{first, run},
};

/// Uses the primary key. Secrets are removed with their owner, so that a deleted owner has none.
pub(crate) const READ: &str =
    "SELECT sealed FROM secrets WHERE owner_kind = ?1 AND owner_id = ?2 AND name = ?3";
const SET: &str =
    "INSERT OR REPLACE INTO secrets (owner_kind, owner_id, name, sealed) VALUES (?1, ?2, ?3, ?4)";
const REMOVE: &str = "DELETE FROM secrets WHERE owner_kind = ?1 AND owner_id = ?2 AND name = ?3";
/// Primary key, its first two columns.
pub(crate) const REMOVE_ALL: &str = "DELETE FROM secrets WHERE owner_kind = ?1 AND owner_id = ?2";

#[async_trait]
impl SecretStore for Sqlite {
    async fn secret(&self, owner: SecretOwner, name: &str) -> Result<Option<StoredSecret>, StoreError> {
        let (kind, id) = columns(owner);
        let values = (kind, id, name.to_owned());
        let sealed = |row: &Row<'_>| Ok(StoredSecret::new(row.get(0)?));
        self.readers.read(move |connection| first(connection, READ, values, sealed)).await
    }
}

/// Sets and removes what the change names.
pub(crate) fn change(
    connection: &Connection,
    owner: SecretOwner,
    secrets: &SecretChange,
) -> Result<(), Failure> {
    let (kind, id) = columns(owner);
    for (name, secret) in secrets {
        match secret {
            Some(secret) => run(connection, SET, params![kind, id, name, secret.expose()])?,
            None => run(connection, REMOVE, params![kind, id, name])?,
        }
    }
    Ok(())
}

/// Removes all an owner's secrets.
pub(crate) fn remove_all(connection: &Connection, owner: SecretOwner) -> Result<(), Failure> {
    let (kind, id) = columns(owner);
    run(connection, REMOVE_ALL, [kind, id])
}

const fn columns(owner: SecretOwner) -> (i64, i64) {
    match owner {
        SecretOwner::User(id) => (1, id.get()),
        SecretOwner::Group(id) => (2, id.get()),
    }
}
