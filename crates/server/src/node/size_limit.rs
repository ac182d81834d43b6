//! The limit on a file's size (`ulimit -f`, `LimitFSIZE`).

use tokio::signal::unix::{SignalKind, signal};

use crate::start_error::StartError;

/// Lets a write above the limit fail, so that callers get STORE_FULL. Without this the system ends the
/// process by a signal, and nothing says why. Holds until the process ends; programs that it starts are not
/// affected. Must be called within the runtime.
///
/// # Errors
/// If the system does not let the process handle the signal.
pub fn outlive() -> Result<(), StartError> {
    // The handler stays when the receiver is dropped; the failed write says enough.
    signal(SignalKind::from_raw(libc::SIGXFSZ))
        .map(drop)
        .map_err(|error| StartError::new(format!("SIGXFSZ cannot be handled: {error}")))
}
