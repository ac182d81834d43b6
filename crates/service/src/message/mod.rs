//! Messages of conversations: sends, and reads by number.
//!
//! **Numbers.** A message gets its number from its append ([`kith_store::MessageStore`]). Appends of one conversation on one node
//! are made one step at a time, many messages in a step (`queue.rs`). Nodes need not know of each other.
//!
//! **Once.** A send is repeated with the same `client_message_id`, and the store says which message has it. The step that a send is
//! part of runs to its end, also if its caller goes away.
//!
//! **Who may.** Decided before the append, by records that are strict: members, rosters and blocks. A send that began before a
//! removal was acknowledged may still be stored. What a user may read of a group is a range of numbers, which is part of its
//! membership.
//!
//! **Freshness.** Messages are read from the store.

mod config;
mod convert;
mod queue;
mod range;
mod reading;
mod rights;
mod rpc;
#[cfg(test)]
mod sample;
mod sending;
mod service;
mod waiting;

pub use config::{DirectFrom, MessagesConfig};
pub use rpc::MessageRpc;
pub use service::{Correspondents, Messages};
