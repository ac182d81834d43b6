//! Why a forwarder stops by itself.

use thiserror::Error;

/// Why a forwarder stops by itself. The text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StopReason {
    /// The receiver answered 410.
    #[error("the receiver answers 410: it wants no events any more; remove this forwarder, or ask its owner")]
    Gone,
    /// The receiver refused many records in a row in the same way.
    #[error(
        "the receiver answers {status} to {records} records in a row: correct its address or the receiver, then start again"
    )]
    Alike {
        /// The status of the answers.
        status: u16,
        /// How many records were refused.
        records: u32,
    },
    /// No further record can be parked.
    #[error(
        "{0} records are parked, which is the most: repair the receiver, run kith forward retry --all, then start again"
    )]
    ParkedFull(usize),
    /// The source refuses the forwarder.
    #[error("{0}")]
    Source(String),
    /// The state cannot be read or saved.
    #[error("{0}")]
    State(String),
}
