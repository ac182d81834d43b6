//! The integration tests of windows in one executable: each is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod model;
mod model_short;
mod stage;
mod windows;
mod windows_keeper;
