//! A node's memory: all its namespaces' copies, and the table with hot entries before them.

mod copies;
mod entry_key;
mod hot_entries;

pub(crate) use copies::{AnyCopy, CACHE_BYTES, Storage, Usage};
pub(crate) use entry_key::{EntryKey, NamespaceId};
