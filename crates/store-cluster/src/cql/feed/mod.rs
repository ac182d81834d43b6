//! The change feed of relations, members and applications.

pub(super) mod reader;
