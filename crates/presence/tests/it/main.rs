//! The presence integration tests in one executable: each crate is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod presence_memory;
mod presence_redis;
