//! What operators see and do: on one node, and on all of them.

mod conversation;
mod convert;
mod edges;
mod figures;
mod log_filter;
mod node;
mod others;
mod place;
mod resync;
mod rpc;
mod vitals;
mod watch;

pub(crate) use conversation::ConversationLogs;
pub(crate) use place::Place;
pub use rpc::{AdminRpc, NodeFacts};
pub use vitals::Vitals;
