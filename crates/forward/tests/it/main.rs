//! A forwarder with a real receiver on loopback, which fails in every way.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod addresses;
mod failures;
mod order;
mod receiver;
mod restarts;
mod signatures;
mod source;
mod stage;
mod stops;
mod transport;
