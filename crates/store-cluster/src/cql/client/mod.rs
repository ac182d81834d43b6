//! The connection: how statements are prepared, sent and repeated, and how rows are decoded. Knows no domain.

pub(super) mod error;
pub(super) mod fault_injection;
pub(super) mod month;
pub(super) mod options;
mod partition_locks;
pub(super) mod probe;
mod retry;
pub(super) mod row;
mod schema;
pub(super) mod session;
pub(super) mod version_clock;
