//! The change feed of relations, members and applications.

mod delivered;
pub(super) mod reader;
