/// Why presence could not be asked or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PresenceError {
    /// Whoever keeps it does not answer. What was asked may have been done.
    #[error("presence is not available")]
    Unavailable,
    /// The user has as many sessions as it may; nothing was changed.
    #[error("the user has as many sessions as it may")]
    TooManySessions,
    /// There are as many gateways as there may be; nothing was changed.
    #[error("there are as many gateways as there may be")]
    TooManyGateways,
    /// Whoever keeps it answered what it never should.
    #[error("presence was answered as it never should be")]
    Unexpected,
}
