//! A cluster's store. Users, groups, messages, dialogs, secrets and the answers to their requests are in
//! MongoDB; follows, blocks, members and applications are in Cassandra or ScyllaDB. Which record is stored
//! where is private to this crate.
//!
//! Writes are acknowledged by a journaled majority; reads ask the primary for what a majority has. A write to
//! one record is one command. A write that changes several documents (secrets, a request id, a deletion) is
//! one transaction, so that a crash leaves everything or nothing.
//!
//! A driver's future must not be dropped early by a caller that still needs its write's outcome: run every
//! write in a task that outlives the call.

pub mod backup;
mod cql;
mod mongo;
mod reachability;

#[doc(hidden)]
pub use cql::LogEnds;
pub use cql::{CqlOptions, CqlProbe, CqlUnfit};
pub use mongo::{
    ClusterHandle, MongoOptions, OpenError, Probe, RestoredCounters, Unfit, connect, verify_backup,
};
