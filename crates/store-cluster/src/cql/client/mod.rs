//! The connection to Cassandra or ScyllaDB: how statements are prepared, sent and retried, and how rows are
//! decoded. Independent of what the rows contain.

pub(super) mod conditional;
pub(super) mod error;
pub(super) mod fault_injection;
pub(super) mod month;
pub(super) mod options;
mod partition_locks;
pub(super) mod probe;
mod retry;
pub(super) mod row;
pub(super) mod schema;
pub(super) mod session;
pub(super) mod version_clock;
