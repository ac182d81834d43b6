//! The integration tests of windows and inboxes in one executable: each is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod inbox_memory;
mod inbox_model;
mod inbox_model_short;
mod inbox_redis;
mod inbox_stage;
mod line;
mod model;
mod model_short;
mod stage;
mod windows;
