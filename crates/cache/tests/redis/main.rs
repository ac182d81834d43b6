//! Redis as the server that nodes share, against real servers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod busy;
mod conformance;
mod refused;
mod runner;
mod server;
mod slots;
mod stage;
mod strangers;
mod table;
mod trouble;
