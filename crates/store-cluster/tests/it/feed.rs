//! The change feed, on a real MongoDB.

#![expect(clippy::unwrap_used, reason = "tests")]
