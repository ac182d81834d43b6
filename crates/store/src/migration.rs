//! How a store is migrated.

use std::fmt;

use async_trait::async_trait;

use crate::{StoreError, Timestamp};

/// Changes the format of the stored data once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Counts from 1 without gaps; the same number is the same change on every backend.
    pub number: u32,
    /// A short description.
    pub name: String,
    /// When it was applied; `None`: it is pending.
    pub applied: Option<Timestamp>,
}

/// Migrates stored data to this program version's format. Forward only.
#[async_trait]
pub trait Migrations: Send + Sync + fmt::Debug + 'static {
    /// All known migrations by number, applied or pending.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`] if a newer program version wrote the data.
    async fn status(&self) -> Result<Vec<Migration>, StoreError>;

    /// Applies pending migrations, under a lock that excludes every other node, and returns those that this
    /// call applied. A second caller waits and then finds none pending.
    ///
    /// # Errors
    /// Fails like [`Self::status`]; a migration that fails is tried again by the next call.
    async fn migrate(&self) -> Result<Vec<Migration>, StoreError>;

    /// Creates missing indexes that applied migrations made, because their collection was dropped by hand or
    /// restored without them: a unique index would otherwise refuse nothing. A backend whose indexes cannot
    /// be lost in this way does nothing.
    ///
    /// # Errors
    /// If the store cannot answer, or two documents have a value that must be unique.
    async fn restore_indexes(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
