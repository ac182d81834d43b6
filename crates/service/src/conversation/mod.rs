//! Conversation settings that apply to all users: the lowest number that any user may read.
//!
//! Most conversations have no record, which is cached like a record. The namespace is strict: after a change
//! is acknowledged, no node uses the previous value.

pub mod cache;
mod feed;
mod records;

pub use feed::feed_mappings;
pub use records::ConversationRecords;

/// The namespace for the records.
const CONVERSATIONS: &str = "conversation";
