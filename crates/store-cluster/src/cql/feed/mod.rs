//! The change feed for relations, members and applications.

mod delivered;
mod reader;
