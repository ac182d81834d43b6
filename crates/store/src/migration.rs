use std::fmt;

use async_trait::async_trait;

use crate::{StoreError, Timestamp};

/// One step of the form of the stored data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Counts from 1 without gaps; the same number is the same change on every backend.
    pub number: u32,
    /// In a few words.
    pub name: String,
    /// When it was applied; `None`: it is pending.
    pub applied: Option<Timestamp>,
}

/// Brings stored data into the form that this version of the program reads. Forward only.
#[async_trait]
pub trait Migrations: Send + Sync + fmt::Debug + 'static {
    /// All known migrations by number, applied or pending.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when the data were written by a newer version of the program.
    async fn status(&self) -> Result<Vec<Migration>, StoreError>;

    /// Applies what is pending, under a lock that keeps out every other node, and returns what this call
    /// applied. A second caller waits and then finds nothing pending.
    ///
    /// # Errors
    /// As [`Self::status`]; a migration that fails is tried again by the next call.
    async fn migrate(&self) -> Result<Vec<Migration>, StoreError>;
}
