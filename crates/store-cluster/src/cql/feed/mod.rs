//! The change feed for relations, members and applications.

mod delivered;
pub(super) mod reader;
