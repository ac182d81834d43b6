//! Blocks, and the log of events between two users.

mod delete;
mod log;
mod store;
mod write;
