//! The limits of a forwarder.

use std::time::Duration;

/// The limits of a forwarder. The defaults are what `kith forward` uses; tests shorten them.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// When a request without an answer ends.
    pub request: Duration,
    /// The wait after the first failed try. Each further wait is three times as long.
    pub first_wait: Duration,
    /// The longest wait between two tries, also if the receiver asks for more.
    pub longest_wait: Duration,
    /// How often a change is tried before its record is parked.
    pub tries: u32,
    /// The most requests at a time, for different lanes.
    pub in_flight: usize,
    /// The most changes in a page.
    pub page: usize,
    /// The most changes that are read and unfinished.
    pub unfinished: usize,
    /// The most parked records. The forwarder stops before it parks another one.
    pub parked: usize,
    /// How many records in a row the receiver may refuse with the same status before the forwarder stops.
    pub alike: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(15),
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(300),
            tries: 10,
            in_flight: 16,
            page: 200,
            unfinished: 1_000,
            parked: 10_000,
            alike: 20,
        }
    }
}
