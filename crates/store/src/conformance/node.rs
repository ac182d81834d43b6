//! Cases of the node store.
