//! Links that fail on request, and servers that die and come back.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod messages;
mod proxy;
mod server;
