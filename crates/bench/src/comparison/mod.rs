//! Compares Kith's cache with three well-known caching schemes in the same laboratory. Store, Redis, links,
//! reads, writes and faults are the same; the schemes run in sequence.
//!
//! Every scheme has a memory tier on each node over one Redis, and is written as its source describes it:
//! `Published`, `Leases`, `Coalesced`. Where a source leaves something open, it is done as for Kith: copies
//! live as long, commands have the same bounds, and a Redis that does not answer is a miss.
//!
//! [`compare`] runs all; [`Run`] has the results of one run. [`compare_numbers`] does the same for sequence
//! numbers.

mod ages;
mod coalesced;
mod compare;
mod fault;
mod feed;
mod kith;
mod leases;
mod numbers;
mod plan;
mod published;
mod report_page;
mod run;
mod server;
mod site;
mod tiers;

use anyhow::Result;
use serde::{Deserialize, Serialize};

pub use ages::Ages;
pub use compare::{Comparison, compare, table};
pub use fault::Fault;
pub use numbers::{
    NumberFault, NumberRun, NumberScheme, NumberSizes, compare_numbers, number_table, run_numbers,
};
pub use plan::Sizes;
pub use run::{Run, run};

/// A node in a scheme.
#[async_trait::async_trait]
trait SchemeNode: Send + Sync + 'static {
    /// The version that a cached read gives; 0: absent.
    async fn read(&self, key: u64) -> Result<u64>;

    /// Commits the next version of a record and makes it known as the scheme does; then it is acknowledged.
    /// Returns the version, or an error if the write is not acknowledged.
    async fn write(&self, key: u64) -> Result<u64>;
}

/// The compared schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// A Kith node's cache.
    Kith,
    /// Cache-aside in two tiers, with deletions that are published.
    DeleteAndPublish,
    /// The leases in Facebook's memcache.
    Leases,
    /// moka's `get_with`, above Redis.
    GetWith,
}

impl Scheme {
    /// All schemes, in the order in which they run.
    pub const ALL: [Self; 4] = [Self::Kith, Self::DeleteAndPublish, Self::Leases, Self::GetWith];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kith => "Kith",
            Self::DeleteAndPublish => "delete and publish",
            Self::Leases => "leases in Redis",
            Self::GetWith => "moka get_with",
        }
    }
}
