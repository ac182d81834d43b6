//! Migrations of a store.

use std::fmt;

use async_trait::async_trait;

use crate::{StoreError, Timestamp};

/// One change of the format of the stored data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Counts from 1 without gaps; the same number is the same change on every backend.
    pub number: u32,
    /// A short description.
    pub name: String,
    /// When it was applied; `None`: it is pending.
    pub applied: Option<Timestamp>,
}

/// Migrates stored data to the format of this version of the program. Forward only.
#[async_trait]
pub trait Migrations: Send + Sync + fmt::Debug + 'static {
    /// All known migrations by number, applied or pending.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`] if the data was written by a newer version of the program.
    async fn status(&self) -> Result<Vec<Migration>, StoreError>;

    /// Applies pending migrations, under a lock that excludes every other node, and returns those that this call
    /// applied. A second caller waits and then finds none pending.
    ///
    /// # Errors
    /// As [`Self::status`]; a migration that fails is tried again by the next call.
    async fn migrate(&self) -> Result<Vec<Migration>, StoreError>;

    /// Creates the indexes of applied migrations that no longer exist, because their collection was dropped by hand or
    /// restored without them: a unique index would otherwise refuse nothing. A backend whose indexes cannot be lost in
    /// this way does nothing.
    ///
    /// # Errors
    /// If the store cannot answer, or two documents have a value that must be unique.
    async fn restore_indexes(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
