//! The integration tests of windows and sequences in one executable: each is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod model;
mod model_short;
mod sequence_model;
mod sequence_model_short;
mod sequence_stage;
mod sequences;
mod sequences_kept;
mod stage;
mod windows;
mod windows_keeper;
