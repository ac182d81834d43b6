//! Numbers for logs that are kept elsewhere (ADR 0038).
//!
//! The store allocates blocks; Redis, or a node's memory without one, issues their numbers. See
//! [`kith_delivery::Sequences`].

mod background;
mod config;
mod convert;
mod rpc;

pub use background::TokioBackground;
pub use config::SequencesConfig;
pub use rpc::SequenceRpc;
