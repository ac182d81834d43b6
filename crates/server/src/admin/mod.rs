//! The service for operators: reads and actions on one node, and on all nodes.

mod context;
mod conversation;
mod convert;
mod edges;
mod fan_out;
mod log_filter;
mod node;
mod node_status;
mod resync;
mod rpc;
mod stats;
mod watch;

pub(crate) use context::AdminContext;
pub(crate) use conversation::ConversationLogs;
pub use node_status::NodeStatus;
pub use rpc::{AdminRpc, NodeFacts};
