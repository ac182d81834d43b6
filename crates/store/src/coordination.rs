use std::{fmt, time::Duration};

use async_trait::async_trait;

use crate::StoreError;

/// Coordination of nodes through the store: exclusive tasks, and their progress.
///
/// Names are short texts that the program chooses. A holder is identified by the name that it passes; two with the same
/// name hold one lease together.
#[async_trait]
pub trait Coordination: Send + Sync + fmt::Debug + 'static {
    /// Takes the lease of this name for so long, if it is free, has run out or is the holder's already; `false`:
    /// another one has it. One step; of many that ask at once for a free one, one gets it.
    ///
    /// Time is that of the store's clock, from some moment between the call and its answer: a holder counts from
    /// before the call.
    ///
    /// # Errors
    /// When the store cannot answer; the lease may have been taken then.
    async fn lease(&self, name: &str, holder: &str, lasts: Duration) -> Result<bool, StoreError>;

    /// Gives the lease back, if it is the holder's; else does nothing. The mark stays.
    ///
    /// # Errors
    /// When the store cannot answer; the lease runs out by itself.
    async fn release(&self, name: &str, holder: &str) -> Result<(), StoreError>;

    /// The mark of this name, set by the last holder of the lease; `None`: never set.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn mark(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Sets the mark if the holder has the lease of the name when it is set, in the same step; `false`: it has not,
    /// and nothing is changed.
    ///
    /// # Errors
    /// When the store cannot answer; the mark may have been set.
    async fn set_mark(&self, name: &str, holder: &str, mark: &[u8]) -> Result<bool, StoreError>;
}
