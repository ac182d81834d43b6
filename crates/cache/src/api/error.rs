use crate::LoadError;

/// The error of a call through the tiers. Does not contain the key.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The store answered the load with an error.
    #[error("the store did not answer the load")]
    Load(#[source] LoadError),
    /// The load took longer than the caller may wait, or than a load may take. It may continue and fill
    /// memory.
    #[error("the load took too long")]
    Timeout,
    /// Too many loads wait for the store; the store was not asked.
    #[error("too many loads wait for the store")]
    Overloaded,
    /// The load panicked, which is a defect of the loader.
    #[error("the load was aborted by a defect")]
    Panicked,
    /// The text is not a key of the namespace.
    #[error("the text is not a key of this namespace")]
    InvalidKey,
    /// The invalidation was applied on this node, but the bus did not accept it.
    #[error("the change could not be published to the other nodes")]
    Bus(#[source] crate::BusError),
}
