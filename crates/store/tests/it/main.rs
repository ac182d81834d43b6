//! The integration tests for store in one executable: each crate is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod any_text;
mod read_ranges;
mod receipts;
mod unread;
