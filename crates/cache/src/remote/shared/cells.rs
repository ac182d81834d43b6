use super::{Acquired, Cell, FillResult, Header, SharedError};

/// The shared server's cells. Every call is idempotent: it may be sent again if its answer was lost. Each key
/// is one atomic step; the keys in one call are separate steps.
#[async_trait::async_trait]
pub trait Cells: std::fmt::Debug + Send + Sync + 'static {
    /// The cells under these keys, in their order. One round trip.
    ///
    /// # Errors
    /// When the server does not answer, or is not the server that was [`accept`](super::Registry::accept)ed.
    async fn read(&self, keys: &[String]) -> Result<Vec<Option<Cell>>, SharedError>;

    /// The headers before the payloads, in the order of the keys: enough to compare versions.
    ///
    /// # Errors
    /// As [`Self::read`].
    async fn heads(&self, keys: &[String]) -> Result<Vec<Option<Header>>, SharedError>;

    /// See [`Cell::acquire`]; in the order of the keys, one round trip.
    ///
    /// # Errors
    /// As [`Self::read`]; leases may be taken, and expire.
    async fn acquire(&self, keys: &[String], token: u64) -> Result<Vec<Acquired>, SharedError>;

    /// Like [`Self::acquire`], for keys that were absent a moment ago; cheaper if they still are.
    ///
    /// # Errors
    /// Like [`Self::acquire`].
    async fn acquire_absent(&self, keys: &[String], token: u64) -> Result<Vec<Acquired>, SharedError> {
        self.acquire(keys, token).await
    }

    /// See [`Cell::fill`]; in the order given, one round trip. Wakes readers that wait for a lease which this
    /// ends.
    ///
    /// # Errors
    /// As [`Self::read`].
    async fn fill(&self, cells: &[(String, Cell)]) -> Result<Vec<FillResult>, SharedError>;

    /// See [`Cell::release`]. Wakes as [`Self::fill`] does.
    ///
    /// # Errors
    /// As [`Self::read`]; the leases expire by themselves.
    async fn release(&self, keys: &[String], token: u64) -> Result<(), SharedError>;
}
