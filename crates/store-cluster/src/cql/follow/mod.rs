//! Follows: their rows, lists, counts and the import.

pub(super) mod bucket;
pub(super) mod bucket_cache;
pub(super) mod count;
mod import;
mod list;
pub(super) mod row;
pub(super) mod store;
mod unfriend;
mod user_removal;
mod write;
