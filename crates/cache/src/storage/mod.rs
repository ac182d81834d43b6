//! The memory of a node: the copies of all its namespaces, and the table of hot entries before them.

mod copies;
mod entry_key;
mod hot_entries;

pub(crate) use copies::{AnyCopy, CACHE_BYTES, Storage, Usage};
pub(crate) use entry_key::{EntryKey, NamespaceId};
