//! The rows, by what they measure.

pub(crate) mod memory;
pub(crate) mod mongodb;
pub(crate) mod rpc;
pub(crate) mod sqlite;
mod store;
