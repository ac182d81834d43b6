//! Follows: their rows, lists, counts and the import.

pub(in crate::cql) mod bucket;
pub(in crate::cql) mod bucket_cache;
pub(in crate::cql) mod count;
mod import;
mod list;
pub(in crate::cql) mod row;
mod store;
mod unfriend;
mod user_removal;
mod write;
