//! Cases of the user store.
