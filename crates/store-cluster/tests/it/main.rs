//! The integration tests for store-cluster in one executable: each crate is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod backups;
mod change;
mod change_feed;
mod conformance;
mod faults;
mod leases;
mod message;
mod migrations;
mod notices_at_once;
mod plans;
mod probe;
mod relations;
mod server;
