use crate::remote::shared::SharedError;

/// The storage of the epoch: in the store, because the shared server may lose it.
#[async_trait::async_trait]
pub trait Epochs: std::fmt::Debug + Send + Sync + 'static {
    /// The epoch, and the name of the shared server that it belongs to. The name is empty before the first
    /// epoch.
    ///
    /// # Errors
    /// If the store does not answer.
    async fn current(&self) -> Result<(u64, String), SharedError>;

    /// Raises the epoch to `seen + 1`, for this shared server, if it is still `seen`. Returns the epoch
    /// afterwards, whichever node raised it.
    ///
    /// # Errors
    /// If the store does not answer. The epoch may have been raised.
    async fn raise(&self, seen: u64, server: &str) -> Result<u64, SharedError>;

    /// Raises the store's present epoch, for the same server. Returns the epoch afterwards. To raise the
    /// epoch that this node follows would not be enough: other nodes may follow a later epoch, and would keep
    /// their copies.
    ///
    /// # Errors
    /// If the store does not answer. The epoch may have been raised.
    async fn raise_present(&self) -> Result<u64, SharedError> {
        let (present, server) = self.current().await?;
        self.raise(present, &server).await
    }
}
