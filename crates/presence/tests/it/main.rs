//! The integration tests of presence in one executable: each is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod presence_memory;
mod presence_redis;
