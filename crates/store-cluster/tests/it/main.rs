//! The integration tests of store-cluster in one executable: each is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod conformance;
mod faults;
mod feed;
mod feeding;
mod messages;
mod migrations;
mod notices_at_once;
mod over_cql;
mod plans;
mod probe;
mod relating;
mod server;
