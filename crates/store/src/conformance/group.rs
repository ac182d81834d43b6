//! Cases of the group store.
