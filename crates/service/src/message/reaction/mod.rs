//! Reactions to messages: who may react, the counts, who is notified, and when reactions end.
//!
//! A recall, an erasure or the removal of a message removes its reactions in the store, in the same
//! transaction. Copies of summaries are not strict: for a moment another node may count a reaction that was
//! withdrawn, but answers never show counts of a message without content.

pub mod cache;
mod cleanup;
mod convert;
mod counts;
mod feed;
mod import;
mod records;
mod rpc;
mod service;

pub use cleanup::ReactionCleanup;
pub(super) use counts::ReactionCounts;
pub use feed::feed_mappings;
pub use records::ReactionRecords;
pub(super) use rpc::ReactionRpc;
pub(super) use service::ReactionSignals;

/// The namespace for the summaries.
const REACTIONS: &str = "reaction";
