//! The rows that take too long before each merge.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../quick/measured.rs"]
mod measured;
mod rows;
