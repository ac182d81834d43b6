//! Blocks, and the log with the events between two users.

mod delete;
mod log;
mod store;
mod write;
