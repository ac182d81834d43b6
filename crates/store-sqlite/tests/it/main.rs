//! The integration tests of store-sqlite in one executable: each is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod backup;
mod conformance;
