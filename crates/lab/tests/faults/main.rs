//! What the scenarios stand on: links that fail as they are told to, and servers that die and come back.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod messages;
mod peers;
mod proxy;
mod server;
