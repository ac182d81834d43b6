//! The state that all namespaces on a node share: clock, bus, trust and the memory bound.

pub(super) mod bus;
pub(super) mod shared_node;
