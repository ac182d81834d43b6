//! The crate's metrics and their export.

pub(super) mod bus;
pub(super) mod counters;
pub(super) mod exposition;
pub(super) mod metric;
