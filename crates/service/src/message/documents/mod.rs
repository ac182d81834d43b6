//! Documents of logs through the tiers: they get no further message, and changes are rare.
//!
//! The namespace is strict: after a change is acknowledged, no node shows the previous message. Only full
//! documents are read here: an append changes a log's last document, and is not broadcast.

pub mod cache;
mod codec;
mod feed;

pub(super) use codec::DocumentCodec;
pub use feed::feed_mappings;

/// The namespace for the documents.
const DOCUMENTS: &str = "document";
