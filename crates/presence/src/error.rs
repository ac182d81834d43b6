//! Errors of presence.

/// Errors of presence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PresenceError {
    /// The storage of presence does not answer. The request may have been executed.
    #[error("presence is not available")]
    Unavailable,
    /// The limit of sessions of the user is reached; nothing was changed.
    #[error("the user has as many sessions as it may")]
    TooManySessions,
    /// The limit of gateways is reached; nothing was changed.
    #[error("there are as many gateways as there may be")]
    TooManyGateways,
    /// The storage of presence gave an invalid answer.
    #[error("presence was answered as it never should be")]
    Unexpected,
}
