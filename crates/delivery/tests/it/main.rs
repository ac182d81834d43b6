//! The integration tests for windows, inboxes, sequences and bitmaps in one executable: each is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bitmap_model;
mod bitmaps;
mod fan_out_notes;
mod heads;
mod inbox_memory;
mod inbox_model;
mod inbox_model_short;
mod inbox_redis;
mod inbox_stage;
mod model;
mod model_short;
mod redis_cluster;
mod redis_link;
mod sequence_model;
mod sequence_model_short;
mod sequence_stage;
mod sequences;
mod sequences_kept;
mod stage;
mod windows;
mod windows_keeper;
