//! The rows, by what they measure.

pub(crate) mod cluster;
pub(crate) mod held;
pub(crate) mod keys;
mod latency;
mod loaded;
pub(crate) mod members;
pub(crate) mod memory;
pub(crate) mod messages;
pub(crate) mod mongodb;
mod one_epoch;
pub(crate) mod presence;
pub(crate) mod readers;
pub(crate) mod receive;
pub(crate) mod redis;
pub(crate) mod relations;
pub(crate) mod rpc;
pub(crate) mod sqlite;
mod store;
pub(crate) mod streams;
pub(crate) mod tokens;
mod until_done;
