//! The store of a cluster. Users, groups, messages, dialogs, secrets and the memory of their requests live in MongoDB, follows
//! and blocks in Cassandra or ScyllaDB; which record lives where is the private matter of this crate.
//!
//! Writes are acknowledged by a journaled majority; reads ask the primary for what a majority has. A write
//! of one record is one command. A write that touches several documents (secrets, a request id, a deletion)
//! is one transaction, so that a crash leaves all of it or nothing.
//!
//! A driver's future must not be dropped half-way by a caller that still wants to know how its write ended:
//! run every write in a task that outlives the call.

mod cql;
mod mongo;
mod reach;

#[doc(hidden)]
pub use cql::LogEnds;
pub use cql::{CqlOptions, CqlProbe, CqlUnfit};
pub use mongo::{ClusterHandle, MongoOptions, OpenError, Probe, Unfit, connect};
