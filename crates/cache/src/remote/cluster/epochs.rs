use crate::remote::shared::SharedError;

/// The storage of the epoch: in the store, because the shared server may lose it.
#[async_trait::async_trait]
pub trait Epochs: std::fmt::Debug + Send + Sync + 'static {
    /// The epoch, and the shared server that it belongs to; empty: none so far.
    ///
    /// # Errors
    /// When the store does not answer.
    async fn current(&self) -> Result<(u64, String), SharedError>;

    /// Raises the epoch to `seen + 1`, for this shared server, if it is still `seen`. Returns the epoch afterwards,
    /// whichever node raised it.
    ///
    /// # Errors
    /// If the store does not answer; it may be raised.
    async fn raise(&self, seen: u64, server: &str) -> Result<u64, SharedError>;

    /// Raises the present epoch, whichever that is, for the same server. Not the one that a node follows: others may
    /// have moved on, and would keep copies that must be discarded. Returns the epoch afterwards.
    ///
    /// # Errors
    /// When the store does not answer; it may be raised.
    async fn raise_present(&self) -> Result<u64, SharedError> {
        let (present, server) = self.current().await?;
        self.raise(present, &server).await
    }
}
