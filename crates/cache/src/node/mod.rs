//! What all namespaces of a node share: clock, bus, trust and the bound on memory.

pub(super) mod bus;
pub(super) mod shared_node;
