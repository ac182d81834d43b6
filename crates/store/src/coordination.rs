//! Leases and marks that nodes share.

use std::{collections::HashSet, fmt, time::Duration};

use async_trait::async_trait;

use crate::StoreError;

/// How nodes coordinate through the store: exclusive tasks, and their progress.
///
/// Names are short texts that the program chooses. A holder is identified by the name that it passes; two
/// holders with the same name hold one lease together.
#[async_trait]
pub trait Coordination: Send + Sync + fmt::Debug + 'static {
    /// Takes or renews the lease with this name for this time, if it is free, has expired or belongs to the
    /// holder already; `false`: another holder has it. One atomic step: only one of several concurrent calls
    /// for a free lease succeeds.
    ///
    /// The time runs by the store's clock, from a moment between the call and its answer: a holder must count
    /// from before the call. A store may answer `true` without a question while two thirds of the time are
    /// left, and `false` for a second after another holder had the lease: a holder must not count on more
    /// than two thirds.
    ///
    /// # Errors
    /// If the store cannot answer; the lease may have been taken then.
    async fn lease(&self, name: &str, holder: &str, lasts: Duration) -> Result<bool, StoreError>;

    /// Returns which of these leases are held now, by any holder. Leases that are left out may be free. The
    /// answer may be a second old.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn held(&self, names: &[String]) -> Result<HashSet<String>, StoreError>;

    /// Releases the lease if it belongs to the holder. The mark is kept.
    ///
    /// # Errors
    /// If the store cannot answer; the lease expires by itself.
    async fn release(&self, name: &str, holder: &str) -> Result<(), StoreError>;

    /// Returns the mark with this name, set by the lease's last holder; `None`: never set.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn mark(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Sets the mark if the holder has the lease with this name, in one atomic step; `false`: it does not
    /// have the lease, and nothing is changed.
    ///
    /// # Errors
    /// If the store cannot answer; the mark may have been set.
    async fn set_mark(&self, name: &str, holder: &str, mark: &[u8]) -> Result<bool, StoreError>;
}
