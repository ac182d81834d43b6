//! The shared server, as far as the protocol uses it.

use std::{sync::Arc, time::Duration};

use super::{Cells, LeaseWaiters, Log, Registry, UnpublishedQueue};

/// The server that nodes share: cells, the log with its channel, and the registry of nodes. A call that takes
/// longer than its bound fails; it may have been executed, or may be later.
pub trait SharedBackend: Cells + Log + Registry {}

impl<S: Cells + Log + Registry> SharedBackend for S {}

/// The shared server as one node's namespaces use it.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// The server that the nodes share.
    pub backend: Arc<dyn SharedBackend>,
    /// Changes that could not be sent to it yet.
    pub queue: Arc<UnpublishedQueue>,
    /// Loads that wait for the loads of other nodes.
    pub lease_waiters: Arc<LeaseWaiters>,
    /// How long a load waits for the load of another node before it asks the store itself.
    pub patience: Duration,
}

/// How long each kind of cell is kept, and how much log.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// How long copies are kept.
    pub copies: Duration,
    /// Absences of records.
    pub absences: Duration,
    /// Leases; longer than a load may take.
    pub leases: Duration,
    /// After this time another load may take a lease over: its holder may be dead or cut off.
    pub takeover: Duration,
    /// Tombs; longer than an earlier read can take until it fills.
    pub tombs: Duration,
    /// About how many entries the log keeps.
    pub log_max: u32,
    /// After this silence a node is removed from the registry.
    pub silent: Duration,
}

impl Default for Retention {
    /// 10 min, 30 s, 3 s, 150 ms, 30 s, 100,000, 60 s.
    fn default() -> Self {
        Self {
            copies: Duration::from_secs(600),
            absences: Duration::from_secs(30),
            leases: Duration::from_secs(3),
            takeover: Duration::from_millis(150),
            tombs: Duration::from_secs(30),
            log_max: 100_000,
            silent: Duration::from_secs(60),
        }
    }
}

/// Why there is no answer of the server. Except for [`SharedError::Refused`], it is unknown whether the
/// request was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharedError {
    /// There is no connection, it broke, or it leads to a server that is not accepted.
    #[error("the shared server is unavailable")]
    Unavailable,
    /// There was no answer in time.
    #[error("the shared server did not answer in time")]
    Timeout,
    /// It refused the request for now: full, read-only, loading.
    #[error("the shared server takes no writes")]
    Refused,
    /// It does not know an epoch that it had known: its data were replaced by an earlier state.
    #[error("the shared server fell back to an earlier state")]
    Fallen,
    /// It gave an invalid answer.
    #[error("the shared server answered what it never should")]
    Unexpected,
}
