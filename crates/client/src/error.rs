//! What an error says to a program.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// An error of a node, or of the way to it. Branch on `reason`, never on the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code:?} {reason}: {message}")]
#[non_exhaustive]
pub struct Error {
    /// The status code.
    pub code: Code,
    /// Why, see `docs/reference/errors.md`. Empty: the error is not that of a node.
    pub reason: String,
    /// The field or the metadata at fault.
    pub field: Option<String>,
    /// `not_applied` or `unknown`: what became of a write.
    pub outcome: Option<String>,
    /// Until when the error lasts, as RFC 3339 writes it.
    pub until: Option<String>,
    /// After which time the call may be sent again.
    pub retry_delay: Option<Duration>,
    /// The text for people.
    pub message: String,
}

impl From<&Status> for Error {
    fn from(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == "kith").cloned();
        let (reason, mut metadata) = info.map(|info| (info.reason, info.metadata)).unwrap_or_default();
        let is_lost = reason.is_empty() && status.code() == Code::Unavailable;
        Self {
            code: status.code(),
            reason,
            field: details.bad_request().and_then(|bad| Some(bad.field_violations.first()?.field.clone())),
            outcome: metadata.remove("outcome").or_else(|| is_lost.then(|| "unknown".to_owned())),
            until: metadata.remove("until"),
            retry_delay: details.retry_info().and_then(|retry| retry.retry_delay),
            message: status.message().to_owned(),
        }
    }
}
