//! The state that a forwarder has to remember.

use std::time::SystemTime;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Change, RetryRequest, StateError};

/// A record whose last event the receiver does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// The change that was not delivered.
    pub change: Change,
    /// Why it was not delivered.
    pub reason: String,
}

/// The state from which a forwarder continues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// Every change before it is delivered or parked.
    pub cursor: String,
    /// The timestamp of the last event, in microseconds since 1970.
    pub last_event: u64,
    /// When everything was delivered or parked, in milliseconds since 1970.
    pub caught_up: u64,
    /// Why the forwarder has stopped by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// By their records.
    #[serde(default)]
    pub parked: Vec<Parked>,
}

/// Where a forwarder keeps its place.
#[async_trait]
pub trait ForwardState: Send {
    /// Saves the state durably, as a whole.
    ///
    /// # Errors
    /// When it cannot be written; then the previous one is still there.
    async fn save(&mut self, state: SavedState) -> Result<(), StateError>;

    /// Returns which parked records to send again, once.
    ///
    /// # Errors
    /// When that cannot be read.
    async fn take_retry(&mut self) -> Result<Option<RetryRequest>, StateError>;
}

/// Milliseconds since 1970.
pub(crate) fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
