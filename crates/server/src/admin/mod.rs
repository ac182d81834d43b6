//! What operators see and do on one node: the admin service.

mod rpc;

pub use rpc::{AdminRpc, NodeFacts};
