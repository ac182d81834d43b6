//! The service of operators: reads and actions on one node, and on all nodes.

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
