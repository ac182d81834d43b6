//! The change feed, on a real MongoDB.
