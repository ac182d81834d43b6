//! The rows, by what they measure.

pub(crate) mod all_servers;
pub(crate) mod changes;
pub(crate) mod cluster;
mod groups;
pub(crate) mod held;
pub(crate) mod keys;
mod latency;
mod loaded;
pub(crate) mod members;
pub(crate) mod memory;
pub(crate) mod messages;
mod methods;
pub(crate) mod mongodb;
pub(crate) mod presence;
mod raw_writer;
pub(crate) mod readers;
pub(crate) mod redis;
pub(crate) mod relations;
pub(crate) mod rpc;
pub(crate) mod sqlite;
mod store;
pub(crate) mod streams;
pub(crate) mod tokens;
mod until_done;
