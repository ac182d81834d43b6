//! The integration tests for store-sqlite in one executable: each crate is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod backup;
mod conformance;
