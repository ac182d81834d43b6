//! What operators see and do on one node: the admin service.

mod rpc;
mod vitals;

pub use rpc::{AdminRpc, NodeFacts};
pub use vitals::Vitals;
