//! Presence errors.

/// Errors that presence returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PresenceError {
    /// The presence storage does not answer. The request may have been executed.
    #[error("presence is not available")]
    Unavailable,
    /// The user has reached the session limit; nothing was changed.
    #[error("the user has as many sessions as it may")]
    TooManySessions,
    /// The gateway limit is reached; nothing was changed.
    #[error("there are as many gateways as there may be")]
    TooManyGateways,
    /// The presence storage gave an invalid answer.
    #[error("presence was answered as it never should be")]
    Unexpected,
}
