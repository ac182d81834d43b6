//! What the crate counts and measures, and how it is exported.

pub(super) mod bus;
pub(super) mod counters;
pub(super) mod exposition;
pub(super) mod metric;
